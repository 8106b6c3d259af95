#pragma once
// Slurm's plugin interface as this project uses it: the same from 22.05 to 26.05, so nothing here asks for a
// version.
extern "C" {
#include <slurm/slurm.h>
#include <slurm/spank.h>
}
