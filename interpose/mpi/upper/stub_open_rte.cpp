// Stands for libopen-rte.so.40, which programs linked with old wrapper flags name: nothing of it is imported
// by programs, and the run-time underneath belongs to the lower half. UH.
extern "C" __attribute__((visibility("default"))) const char orte_version_string[] = "CropDL";
