/*
 * Codecs that rpcgen generates, by way of libtirpc, for the benchmark: a
 * question a line on the input, an answer a line on the output.
 *
 *     message NAME HEX       the tasks that it can do, or `-` and why not
 *     run NAME TASK COUNT    the nanoseconds that so many executions took
 *
 * To decode is what a user of such code must do for each message: to clear
 * the structure, to make a stream, to call the filter, and to free what it
 * allocated.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "headers.h"
#ifdef WITH_NFS
#include "nfs.h"
#endif

/* More than any operation in RDMA2_OPTIONAL takes. */
enum { INNER_ROOM = 512 };

/* rpcgen's filters take a pointer to their own type, and libtirpc calls all of them like this. */
#define FILTER(type) ((xdrproc_t)xdr_##type)

/* A value of a message's type, and of what the opaque in it holds. */
struct value {
    union {
        rpcrdma2_xprt_hdr two;
        rdma_msg one;
        onc_msg rpc;
        read_data read;
        integers integers;
#ifdef WITH_NFS
        COMPOUND4res compound;
#endif
    } outer;
    union {
        optinfo_connprop connprop;
        optxmt_req xmtreq;
    } inner;
    /* Of the properties in `connprop`: a number, a bool, or a bkreqsup; all have the size of an int. */
    u_int properties[8];
};

struct message {
    const char *name;
    xdrproc_t outer;
    size_t size;        /* of the outer structure */
    xdrproc_t inner;    /* of the octets in RDMA2_OPTIONAL, or NULL */
    size_t inner_size;
    u_int operation;    /* of the same */
    char *octets;
    u_int length;
    char *room;         /* for as many */
    struct value value; /* what `octets` are */
    bool_t ready;       /* all of this */
};

static struct message messages[] = {
    { .name = "v2-msg", .outer = FILTER(rpcrdma2_xprt_hdr), .size = sizeof(rpcrdma2_xprt_hdr) },
    { .name = "v2-msg-chunks", .outer = FILTER(rpcrdma2_xprt_hdr), .size = sizeof(rpcrdma2_xprt_hdr) },
    { .name = "v2-long-call", .outer = FILTER(rpcrdma2_xprt_hdr), .size = sizeof(rpcrdma2_xprt_hdr) },
    { .name = "connprop", .outer = FILTER(rpcrdma2_xprt_hdr), .size = sizeof(rpcrdma2_xprt_hdr),
      .inner = FILTER(optinfo_connprop), .inner_size = sizeof(optinfo_connprop), .operation = ROPT_CONNPROP },
    { .name = "xmtreq", .outer = FILTER(rpcrdma2_xprt_hdr), .size = sizeof(rpcrdma2_xprt_hdr),
      .inner = FILTER(optxmt_req), .inner_size = sizeof(optxmt_req), .operation = ROPT_XMTREQ },
    { .name = "v1-msg", .outer = FILTER(rdma_msg), .size = sizeof(rdma_msg) },
    { .name = "v1-msg-chunks", .outer = FILTER(rdma_msg), .size = sizeof(rdma_msg) },
    { .name = "v1-long-call", .outer = FILTER(rdma_msg), .size = sizeof(rdma_msg) },
    { .name = "rpc-call", .outer = FILTER(onc_msg), .size = sizeof(onc_msg) },
    { .name = "opaque-1M", .outer = FILTER(read_data), .size = sizeof(read_data) },
    { .name = "integers-64K", .outer = FILTER(integers), .size = sizeof(integers) },
    { .name = "integers-1M", .outer = FILTER(integers), .size = sizeof(integers) },
#ifdef WITH_NFS
    { .name = "nfs-compound", .outer = FILTER(COMPOUND4res), .size = sizeof(COMPOUND4res) },
#endif
};

static bool_t read_value(xdrproc_t filter, void *value, size_t size, char *octets, u_int length)
{
    XDR xdr;
    memset(value, 0, size);
    xdrmem_create(&xdr, octets, length, XDR_DECODE);
    return filter(&xdr, value) && xdr_getpos(&xdr) == length;
}

/* The octets that the value took, or 0. */
static u_int write_value(xdrproc_t filter, void *value, char *room, u_int size)
{
    XDR xdr;
    xdrmem_create(&xdr, room, size, XDR_ENCODE);
    return filter(&xdr, value) ? xdr_getpos(&xdr) : 0;
}

static bool_t decode(const struct message *message, struct value *value)
{
    if (!read_value(message->outer, &value->outer, message->size, message->octets, message->length))
        return FALSE;
    if (!message->inner)
        return TRUE;
    rpcrdma2_body *body = &value->outer.two.body;
    if (body->rdma_proc != RDMA2_OPTIONAL)
        return FALSE;
    rpcrdma2_optional *optional = &body->rpcrdma2_body_u.rdma_optional;
    return optional->rdma_opttype == message->operation
        && read_value(message->inner, &value->inner, message->inner_size, optional->rdma_optinfo.rdma_optinfo_val,
                      optional->rdma_optinfo.rdma_optinfo_len);
}

static void release(const struct message *message, struct value *value)
{
    xdr_free(message->outer, (void *)&value->outer);
    if (message->inner)
        xdr_free(message->inner, (void *)&value->inner);
}

/* The filter of a property's value. */
static xdrproc_t property(u_int which)
{
    switch (which) {
    case PROP_RBSIZ:
        return (xdrproc_t)xdr_u_int;
    case PROP_REQREMINV:
        return (xdrproc_t)xdr_bool;
    case PROP_BRS:
        return FILTER(bkreqsup);
    default:
        return NULL;
    }
}

/* The values of the properties as octets, each in the opaque that has its octets already. */
static bool_t write_properties(struct value *value)
{
    optinfo_connprop *connprop = &value->inner.connprop;
    for (u_int i = 0; i < connprop->opticonnpr_start.opticonnpr_start_len; i++) {
        propval *propval = &connprop->opticonnpr_start.opticonnpr_start_val[i];
        xdrproc_t filter = property(propval->pv_which);
        if (!filter || !write_value(filter, &value->properties[i], propval->pv_data.pv_data_val,
                                    propval->pv_data.pv_data_len))
            return FALSE;
    }
    return TRUE;
}

/* The octets that a message took in which an opaque is XDR itself, or 0. */
static u_int encode_optional(const struct message *message, struct value *value)
{
    char inner[INNER_ROOM];
    if (message->operation == ROPT_CONNPROP && !write_properties(value))
        return 0;
    u_int length = write_value(message->inner, &value->inner, inner, sizeof inner);
    if (length == 0)
        return 0;
    rpcrdma2_xprt_hdr header = value->outer.two;
    rpcrdma2_optional *optional = &header.body.rpcrdma2_body_u.rdma_optional;
    optional->rdma_optinfo.rdma_optinfo_val = inner;
    optional->rdma_optinfo.rdma_optinfo_len = length;
    return write_value(message->outer, &header, message->room, message->length);
}

/* The octets that the message took, or 0. */
static u_int encode(const struct message *message, struct value *value)
{
    if (message->inner)
        return encode_optional(message, value);
    return write_value(message->outer, &value->outer, message->room, message->length);
}

/* Whatever `value` points to, it is needed. */
static inline void keep(const void *value)
{
    __asm__ volatile("" : : "r"(value) : "memory");
}

__attribute__((noinline)) static bool_t decode_once(const struct message *message)
{
    struct value value;
    /* `prepare` has decoded the same octets, so that nothing is left half decoded. */
    if (!decode(message, &value))
        return FALSE;
    keep(&value);
    release(message, &value);
    return TRUE;
}

__attribute__((noinline)) static bool_t encode_once(struct message *message)
{
    u_int length = encode(message, &message->value);
    keep(message->room);
    return length != 0;
}

static struct message *find(const char *name)
{
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++)
        if (strcmp(messages[i].name, name) == 0)
            return &messages[i];
    return NULL;
}

static int digit(char hex)
{
    static const char digits[] = "0123456789abcdef";
    const char *found = memchr(digits, hex, 16);
    return found ? (int)(found - digits) : -1;
}

/* Why the message can't be measured, or NULL. */
static const char *prepare(struct message *message, const char *hex)
{
    size_t length = strlen(hex) / 2;
    message->octets = malloc(length);
    message->room = calloc(1, length);
    if (!message->octets || !message->room)
        return "no memory";
    message->length = (u_int)length;
    for (size_t i = 0; i < length; i++) {
        int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
        if (high < 0 || low < 0)
            return "not hexadecimal";
        message->octets[i] = (char)(high << 4 | low);
    }
    if (!decode(message, &message->value))
        return "it does not decode";
    if (message->operation == ROPT_CONNPROP) {
        optinfo_connprop *connprop = &message->value.inner.connprop;
        u_int count = connprop->opticonnpr_start.opticonnpr_start_len;
        if (count > sizeof message->value.properties / sizeof(u_int))
            return "more properties than there is room for";
        for (u_int i = 0; i < count; i++) {
            propval *propval = &connprop->opticonnpr_start.opticonnpr_start_val[i];
            xdrproc_t filter = property(propval->pv_which);
            if (!filter || !read_value(filter, &message->value.properties[i], sizeof(u_int),
                                       propval->pv_data.pv_data_val, propval->pv_data.pv_data_len))
                return "a property does not decode";
        }
    }
    if (encode(message, &message->value) != message->length
        || memcmp(message->room, message->octets, message->length) != 0)
        return "what was decoded encodes otherwise";
    message->ready = TRUE;
    return NULL;
}

static unsigned long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (unsigned long long)time.tv_sec * 1000000000 + (unsigned long long)time.tv_nsec;
}

static void run(struct message *message, const char *task, unsigned long long count)
{
    bool_t done = TRUE;
    unsigned long long start, end;
    if (strcmp(task, "decode") == 0) {
        start = now();
        for (unsigned long long i = 0; i < count; i++)
            done &= decode_once(message);
        end = now();
    } else if (strcmp(task, "encode") == 0) {
        start = now();
        for (unsigned long long i = 0; i < count; i++)
            done &= encode_once(message);
        end = now();
    } else {
        puts("- no such task");
        return;
    }
    if (done)
        printf("%llu\n", end - start);
    else
        puts("- it failed");
}

int main(void)
{
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, stdin) != -1) {
        line[strcspn(line, "\n")] = '\0';
        const char *verb = strtok(line, " "), *name = strtok(NULL, " ");
        const char *third = strtok(NULL, " "), *fourth = strtok(NULL, " ");
        struct message *message = name ? find(name) : NULL;
        if (!verb || !name || !third) {
            puts("- not a question");
        } else if (!message) {
            puts("- its type is not compiled");
        } else if (strcmp(verb, "message") == 0 && !message->octets) {
            const char *reason = prepare(message, third);
            if (reason)
                printf("- %s\n", reason);
            else
                puts("decode encode");
        } else if (strcmp(verb, "run") == 0 && message->ready && fourth) {
            run(message, third, strtoull(fourth, NULL, 10));
        } else {
            puts("- not a question");
        }
        fflush(stdout);
    }
    return 0;
}
