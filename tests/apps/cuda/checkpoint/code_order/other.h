#pragma once
void keep_other(unsigned** at);
