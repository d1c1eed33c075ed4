/* tenants: compares the workspace of a token with those of events and endpoints. */
#include "tenants.h"
#include "managed_endpoints.h"
#include "sequencer.h"
#include "store.h"
#include <stdlib.h>
#include <string.h>

bool tenant_has_event(const char *tenant, const struct event_row *e)
{
    if (!tenant)
        return true;
    return strcmp(e->workspace, tenant) == 0 && e->status != EVENT_SPLIT &&
           !(e->status == EVENT_REFUSED && strcmp(tenant, "default") == 0);
}

bool tenant_has_endpoint(struct sequencer *q, const char *tenant,
                         int64_t endpoint)
{
    char *workspace = tenant ? managed_workspace(q, endpoint) : NULL;
    bool has = !tenant || (workspace && strcmp(workspace, tenant) == 0);

    free(workspace);
    return has;
}

const char *tenant_of(const json_t *args)
{
    return json_string_value(json_object_get(args, "tenant"));
}

json_t *tenants_check(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *tenant = json_string_value(json_object_get(args, "workspace"));
    const char *id = json_string_value(json_object_get(args, "event"));
    json_t *own = json_array(), *name;
    struct event_row e = {0};
    bool event = !id;
    size_t i;

    (void)why;
    if (id) {
        event = store_event_by_id(q->store, wire_text(id), &e) &&
                tenant_has_event(tenant, &e);
        event_fini(&e);
    }
    json_array_foreach(json_object_get(args, "endpoints"), i, name)
    {
        const struct endpoint *to = endpoint_find(q, json_string_value(name));

        if (to && tenant_has_endpoint(q, tenant, to->id))
            json_array_append(own, name);
    }
    return json_pack("{s:b,s:o}", "event", (int)event, "endpoints", own);
}
