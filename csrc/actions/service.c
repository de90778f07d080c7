/* service: a simulated downstream with `capacity` servers and a queue, in which an item is in flight from its admission. */
#include "../action.h"

const fw_action fw_action_service = {
    .name = "service",
    .start = fw_servers_start,
    .next = fw_servers_next,
    .settle = fw_servers_settle,
    .close = fw_servers_close,
};
