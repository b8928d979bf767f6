/* The client and the server of rpcgen and libtirpc, over one TCP connection, without rpcbind. */

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "echo.h"

/* What rpcgen makes of the program. */
void echo_1(struct svc_req *request, SVCXPRT *transport);

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

block *echo_echo_1_svc(block *argument, struct svc_req *request)
{
    static block result;
    (void)request;
    /* rpcgen frees the argument after the result is sent. */
    result = *argument;
    return &result;
}

block *echo_read_1_svc(u_int *count, struct svc_req *request)
{
    static char bytes[BLOCK_MAX];
    static block result;
    (void)request;
    result.data.data_val = bytes;
    result.data.data_len = *count;
    return &result;
}

u_int *echo_write_1_svc(block *argument, struct svc_req *request)
{
    static u_int result;
    (void)request;
    result = argument->data.data_len;
    return &result;
}

void *echo_null_1_svc(void *argument, struct svc_req *request)
{
    static char result;
    (void)argument;
    (void)request;
    return &result;
}

static struct sockaddr_in address_of(const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void serve(const char *port)
{
    struct sockaddr_in address = address_of(port);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 8))
        fail("cannot listen");
    SVCXPRT *transport = svctcp_create(listener, 0, 0);
    if (!transport || !svc_register(transport, ECHO, ECHO1, echo_1, 0))
        fail("cannot serve");
    printf("127.0.0.1:%s\n", port);
    fflush(stdout);
    svc_run();
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void call(const char *port, const char *what)
{
    static char bytes[1 << 20];
    struct sockaddr_in address = address_of(port);
    int socket = RPC_ANYSOCK;
    CLIENT *client = clnttcp_create(&address, ECHO, ECHO1, &socket, 0, 0);
    if (!client)
        fail("cannot connect");
    int is_read = !strcmp(what, "read"), is_write = !strcmp(what, "write");
    u_int size = is_read || is_write ? sizeof bytes : 64;
    block argument = {{size, bytes}};
    double began = now();
    unsigned calls = 0;
    while (now() - began < 1.0) {
        u_int returned = 0;
        if (is_write) {
            u_int *result = echo_write_1(&argument, client);
            returned = result ? *result : 0;
        } else {
            block *result = is_read ? echo_read_1(&size, client) : echo_echo_1(&argument, client);
            returned = result ? result->data.data_len : 0;
            if (result)
                xdr_free((xdrproc_t)xdr_block, (char *)result);
        }
        if (returned != size)
            fail("a call failed");
        calls++;
    }
    printf("%.0f\n", calls / (now() - began));
}

int main(int count, char **arguments)
{
    if (count == 3 && !strcmp(arguments[1], "serve"))
        serve(arguments[2]);
    else if (count == 4 && !strcmp(arguments[1], "call"))
        call(arguments[2], arguments[3]);
    else
        fail("usage: echo serve PORT, call PORT echo|read|write");
    return 0;
}
