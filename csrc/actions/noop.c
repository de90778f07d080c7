/* noop: every item ends as it starts; what a run of it costs is the cost of the engine itself. */
#include "../action.h"

const fw_action fw_action_noop = {.name = "noop"};
