/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_mqtt.h"

int uw_mqtt_open(struct uw_mqtt **mqtt, const char *url, const struct uw_mqtt_files *files,
                 int *fd, struct uw_error *err)
{
    (void)files;
    *mqtt = NULL;
    *fd = -1;
    return uw_error_set(err, UW_ERR_UNSUPPORTED,
                        "%.120s: this program was built without MQTT: install libmosquitto (Debian "
                        "package libmosquitto-dev) and build again", url);
}

bool uw_mqtt_is_refused(struct uw_mqtt *m, char *text, size_t text_bytes)
{
    (void)m;
    (void)text;
    (void)text_bytes;
    return false;
}

bool uw_mqtt_news(struct uw_mqtt *m, char *text, size_t text_bytes)
{
    return uw_mqtt_is_refused(m, text, text_bytes);
}

void uw_mqtt_close(struct uw_mqtt *m)
{
    (void)m;
}
