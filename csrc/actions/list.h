/* list.h: the native actions. A line here and a file of that name beside it make one. */
#define FW_ACTIONS(each) \
  each(noop)             \
  each(delay)            \
  each(cpu)              \
  each(service)
