// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

const (
	// serveEnv makes the test binary a server of the ports of both protocols, which says its user and the
	// sender of a connection.
	serveEnv = "PROCESS_TEST_SERVE"
	// reachEnv makes the test binary a client, which says the answers of addresses.
	reachEnv = "PROCESS_TEST_REACH"
)

// useNetwork is what the test binary does in the containers of this file.
func useNetwork() {
	for _, port := range strings.Fields(os.Getenv(serveEnv)) {
		l, err := net.Listen("tcp", ":"+port)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = fmt.Fprintf(c, "port %s user %d", port, os.Getuid())
				_ = c.Close()
			}
		}()
		u, err := net.ListenPacket("udp", ":"+port)
		if err == nil {
			go func() {
				buf := make([]byte, 100)
				for {
					if _, from, err := u.ReadFrom(buf); err == nil {
						_, _ = u.WriteTo([]byte("datagram"), from)
					}
				}
			}()
		}
		fmt.Println("serves", port)
	}
	if targets, ok := os.LookupEnv(reachEnv); ok {
		for _, target := range strings.Fields(targets) {
			fmt.Println(target, answer((&net.Dialer{}).DialContext, target))
		}
		fmt.Println("done")
	}
	if os.Getenv(serveEnv)+os.Getenv(reachEnv) != "" {
		time.Sleep(time.Hour)
	}
}

// answer returns the answer of a server, or "none".
func answer(dial func(ctx context.Context, network, address string) (net.Conn, error), address string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := dial(ctx, "tcp", address)
	if err != nil {
		return "none"
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	raw, err := io.ReadAll(c)
	if err != nil && len(raw) == 0 {
		return "none"
	}
	return string(raw)
}
