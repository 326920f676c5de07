/* SPDX-License-Identifier: Apache-2.0
 *
 * lwIP's options for uwasa/link_lwip.h: IPv4, UDP, ARP, ICMP, no threads. Received frames wait in
 * the Ethernet controller; one pool buffer holds the frame being processed, the other is spare. */
#ifndef UW_LWIPOPTS_H
#define UW_LWIPOPTS_H

#define NO_SYS 1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_NETCONN 0
#define LWIP_SOCKET 0
#define LWIP_TCP 0
#define LWIP_RAW 0
#define LWIP_IPV4 1
#define LWIP_IPV6 0
#define LWIP_DHCP 0
#define LWIP_AUTOIP 0
#define LWIP_DNS 0
#define LWIP_IGMP 0
#define LWIP_ARP 1
#define LWIP_ICMP 1
#define LWIP_UDP 1
#define IP_REASSEMBLY 0
#define IP_FRAG 0
#define ARP_QUEUEING 1              /* the default keeps one packet per address being resolved */
#define ARP_TABLE_SIZE 8
#define MEMP_NUM_ARP_QUEUE 8
#define MEMP_NUM_UDP_PCB 1
#define MEMP_NUM_PBUF 8
#define MEMP_NUM_SYS_TIMEOUT 3
#define MEM_ALIGNMENT __SIZEOF_POINTER__
/* For frames being sent or waiting for an address: one large frame, 1300 bytes with headers, and
 * small ones. A driver has copied the frame when send returns. */
#define MEM_SIZE 2048
#define PBUF_POOL_SIZE 2
/* A ping reply that waits for an address is copied: otherwise strangers could occupy all receive
 * buffers. */
#define PBUF_NEEDS_COPY(p)                                                                        \
    (((p)->type_internal & PBUF_TYPE_FLAG_DATA_VOLATILE) != 0 ||                                   \
     ((p)->type_internal & PBUF_TYPE_ALLOC_SRC_MASK) ==                                            \
         PBUF_TYPE_ALLOC_SRC_MASK_STD_MEMP_PBUF_POOL)
#define PBUF_POOL_BUFSIZE 1536
#define LWIP_CHKSUM_ALGORITHM 3
#define LWIP_STATS 0
#define LWIP_NETIF_API 0
#define LWIP_NETIF_STATUS_CALLBACK 0
#define LWIP_SINGLE_NETIF 1
#define ETH_PAD_SIZE 2              /* aligns IP headers to 4 bytes */

#endif
