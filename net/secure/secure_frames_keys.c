/* SPDX-License-Identifier: Apache-2.0
 *
 * Epochs and their keys, counters and their store. */
#include "secure_frames_priv.h"

#include "base/token_bucket.h"

#include "uwasa/crc.h"

#include <string.h>

#define RECORD_MAGIC 0x32435755u            /* "UWC2" */
#define RECORD_BYTES UW_SECURE_FRAMES_RECORD_BYTES
#define CRC_AT (RECORD_BYTES - 4u)
#define SAVE_AHEAD_PARTS 4u                 /* the next range is saved with this fraction left */
#define SAVE_PAUSE_US 1000000u              /* after a failed write, which may have taken long */
#define DERIVATIONS_MAX 16u                 /* burst of derivations for other epochs ... */
#define DERIVATION_US 62500u                /* ... and the interval afterwards */

/* Is it this epoch or the previous one, whose keys are never replaced? */
static bool is_current(const struct uw_secure_frames *s, uint32_t epoch)
{
    return epoch == s->epoch || (s->epoch != 0 && epoch == s->epoch - 1u);
}

static struct uw_frames_key *derive(struct uw_secure_frames *s, uint32_t at, uint32_t epoch)
{
    s->key_set[at] = uw_frames_key_derive(s->keys[at], s->key, s->run, epoch) == UW_OK;
    s->key_epochs[at] = epoch;
    return s->key_set[at] ? s->keys[at] : NULL;
}

struct uw_frames_key *uw_frames_key_of(struct uw_secure_frames *s, uint32_t epoch)
{
    uint32_t at = is_current(s, epoch) ? epoch & 1u : UW_FRAMES_OTHER_KEY;
    if (s->key_set[at] && s->key_epochs[at] == epoch) {
        return s->keys[at];
    }
    /* Limited, because any sender can name an epoch, and a derivation is expensive. */
    bool may = at != UW_FRAMES_OTHER_KEY ||
               uw_bucket_take(&s->derived_us, s->now_us, DERIVATION_US,
                              DERIVATIONS_MAX * DERIVATION_US, 0);
    return may ? derive(s, at, epoch) : NULL;
}

/* Move the key of another epoch to the current one. */
static void promote(struct uw_secure_frames *s)
{
    uint32_t at = s->epoch & 1u, from = UW_FRAMES_OTHER_KEY;
    if (s->key_set[from] && s->key_epochs[from] == s->epoch) {
        struct uw_frames_key *key = s->keys[at];
        s->keys[at] = s->keys[from];
        s->keys[from] = key;
        s->key_epochs[at] = s->epoch;
        s->key_set[at] = true;
        s->key_set[from] = false;
    }
}

void uw_frames_follow(struct uw_secure_frames *s, uint32_t epoch)
{
    if (epoch > s->epoch) {
        s->epoch = epoch;
        promote(s);
        s->epoch_began = s->counter;
    }
}

bool uw_frames_epoch_of(const struct uw_secure_frames *s, uint8_t first, uint32_t *epoch)
{
    uint32_t ahead = (first - s->epoch) & UW_FRAMES_EPOCH_MASK;
    if (ahead == UW_FRAMES_EPOCH_MASK && s->epoch != 0) {
        *epoch = s->epoch - 1u;
        return true;
    }
    *epoch = s->epoch + ahead;
    return ahead <= 1u && *epoch >= s->epoch;
}

static int write_record(struct uw_secure_frames *s, uint64_t counter)
{
    uint8_t record[RECORD_BYTES];
    uw_put_u32(record, RECORD_MAGIC);
    uw_put_u64(record + 4, s->id);
    uw_put_u64(record + 12, counter);
    uw_put_u32(record + 20, s->epoch);
    uw_put_u64(record + 24, s->epoch_began);
    uw_put_u32(record + CRC_AT, uw_crc32c_portable(0, record, CRC_AT));
    const struct uw_storage_ops *ops = s->store->ops;
    int rc = ops->begin(s->store, s->object);
    if (rc < 0) {
        return rc;
    }
    rc = ops->append(s->store, record, sizeof record);
    int ended = ops->end(s->store, rc == UW_OK);
    return rc == UW_OK ? ended : rc;
}

/* Store that counters below `counter` may be used. Written twice: if the newest of two slots in
 * flash is damaged, the other one has the same content. */
static int save(struct uw_secure_frames *s, uint64_t counter)
{
    if (s->now_us < s->save_again_us) {
        return UW_ERR_IO;
    }
    int rc = write_record(s, counter);
    rc = rc == UW_OK ? write_record(s, counter) : rc;
    if (rc < 0) {
        s->save_again_us = s->now_us + SAVE_PAUSE_US;
        return rc;
    }
    s->saved_counter = counter;
    s->saved_epoch = s->epoch;
    s->stats.saved_n++;
    return UW_OK;
}

static bool is_used_up(const struct uw_secure_frames *s)
{
    return s->counter >= UW_FRAMES_COUNTER_END - 1u;
}

int uw_frames_count(struct uw_secure_frames *s, uint64_t *counter)
{
    if (is_used_up(s)) {
        return UW_ERR_CLOSED;
    }
    if (s->store != NULL && s->counter >= s->saved_counter &&
        save(s, s->counter + s->reserve_n) < 0) {
        return UW_ERR_IO;
    }
    if (s->counter - s->epoch_began >= s->epoch_frames) {
        (void)uw_secure_frames_rotate(s);
    }
    *counter = s->counter++;
    return UW_OK;
}

void uw_frames_save_ahead(struct uw_secure_frames *s)
{
    if (s->store != NULL && (s->saved_counter - s->counter < s->reserve_n / SAVE_AHEAD_PARTS ||
                             s->saved_epoch != s->epoch)) {
        (void)save(s, s->counter + s->reserve_n);      /* otherwise saved when none is left */
    }
}

int uw_secure_frames_rotate(struct uw_secure_frames *s)
{
    if (s->epoch == UINT32_MAX) {
        return UW_ERR_CLOSED;
    }
    bool there = s->key_set[UW_FRAMES_OTHER_KEY] &&
                 s->key_epochs[UW_FRAMES_OTHER_KEY] == s->epoch + 1u;
    if (!there && derive(s, UW_FRAMES_OTHER_KEY, s->epoch + 1u) == NULL) {
        return UW_ERR_NOMEM;
    }
    uw_frames_follow(s, s->epoch + 1u);
    return UW_OK;
}

static int read_record(struct uw_secure_frames *s, uint8_t record[RECORD_BYTES])
{
    uint64_t bytes = 0;
    int rc = s->store->ops->size(s->store, s->object, &bytes);
    if (rc == UW_OK) {
        rc = bytes == RECORD_BYTES
                 ? s->store->ops->read(s->store, s->object, 0, record, RECORD_BYTES)
                 : UW_ERR_CORRUPT;
    }
    if (rc == UW_OK && (uw_get_u32(record) != RECORD_MAGIC ||
                        uw_get_u32(record + CRC_AT) !=
                            uw_crc32c_portable(0, record, CRC_AT))) {
        rc = UW_ERR_CORRUPT;
    }
    return rc;
}

static uint64_t kept_id(const uint8_t record[RECORD_BYTES])
{
    return uw_get_u64(record + 4);
}

static int draw_id(struct uw_secure_frames *s)
{
    uint64_t id = s->id;
    int rc = UW_OK;
    while (rc == UW_OK && id == 0) {
        uint8_t random[8];
        rc = uw_ccm_random(s->entropy, s->user, random, sizeof random);
        id = uw_get_u64(random);
    }
    s->id = rc == UW_OK ? id : s->id;
    return rc;
}

bool uw_frames_draw_another(struct uw_secure_frames *s)
{
    uint64_t before = s->id;
    if (s->fixed) {
        return false;
    }
    s->id = 0;
    if (draw_id(s) < 0) {
        s->id = before;
        return false;
    }
    s->saved_counter = s->counter;      /* saved before its first frame */
    return true;
}

/* Returns UW_ERR_CLOSED when no counter is left. */
static int apply_record(struct uw_secure_frames *s, const uint8_t record[RECORD_BYTES])
{
    s->id = kept_id(record);
    s->counter = uw_get_u64(record + 12);
    s->epoch = uw_get_u32(record + 20);
    s->saved_counter = s->counter;
    s->saved_epoch = s->epoch;
    s->epoch_began = uw_get_u64(record + 24);
    return is_used_up(s) ? UW_ERR_CLOSED : UW_OK;
}

int uw_frames_load(struct uw_secure_frames *s, const struct uw_secure_frames_config *config)
{
    uint8_t record[RECORD_BYTES];
    s->id = config->id;
    s->fixed = config->id != 0;
    s->entropy = config->entropy;
    if (config->store == NULL) {
        return draw_id(s);
    }
    int rc = read_record(s, record);
    bool other = rc == UW_OK && config->id != 0 && config->id != kept_id(record);
    if (rc == UW_OK && !other) {
        rc = apply_record(s, record);
        if (rc == UW_ERR_CLOSED && !s->fixed) {
            s->id = s->counter = s->saved_counter = s->epoch_began = 0;
            rc = draw_id(s);
        }
        return rc;
    }
    if (rc == UW_OK || rc == UW_ERR_NOTFOUND) {
        /* UW_ERR_NOTFOUND may also mean a lost record. */
        return s->fixed && !config->first_start ? UW_ERR_CORRUPT : draw_id(s);
    }
    return rc == UW_ERR_CORRUPT && !s->fixed ? draw_id(s) : rc;
}

void uw_frames_begin(struct uw_ccm_frame *f, uint64_t id, uint64_t counter, uint16_t from,
                     uint16_t to, const uint8_t *bytes, uint32_t n)
{
    uw_put_u64(f->nonce, id);
    uw_put_u40(f->nonce + 8, counter);
    uw_put_u16(f->head, from);
    uw_put_u16(f->head + 2, to);
    memcpy(f->head + 4, bytes, n);
    f->head_bytes = 4u + n;
}
