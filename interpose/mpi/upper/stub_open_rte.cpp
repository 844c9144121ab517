// Replaces libopen-rte.so.40, which programs linked with old wrapper flags name. Programs import nothing from
// it, and the run-time underneath belongs to the lower half. UH.
extern "C" __attribute__((visibility("default"))) const char orte_version_string[] = "CropDL";
