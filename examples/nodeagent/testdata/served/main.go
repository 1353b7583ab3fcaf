// SPDX-License-Identifier: Apache-2.0

// Command served is the program of the images of tests. It prints its surroundings, listens on the
// ports of LISTEN, and waits for SIGTERM.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	if filepath.Base(os.Args[0]) == "pg_isready" {
		if conn, err := net.Dial("tcp", "127.0.0.1:5432"); err == nil {
			_ = conn.Close()
			return
		}
		os.Exit(2)
	}
	become()
	dir, _ := os.Getwd()
	fmt.Println("args", os.Args)
	fmt.Println("ids", os.Getuid(), os.Getgid())
	fmt.Println("dir", dir)
	for _, name := range strings.Fields(os.Getenv("TELL")) {
		fmt.Println(name, os.Getenv(name))
	}
	for _, file := range strings.Fields(os.Getenv("READ")) {
		text, err := os.ReadFile(file)
		fmt.Printf("read %s %q %v\n", file, text, err)
	}
	for _, folder := range strings.Fields(os.Getenv("WRITE")) {
		err := os.WriteFile(filepath.Join(folder, "written"), []byte("by the container"), 0o600)
		fmt.Println("write", folder, err)
	}
	for _, folder := range strings.Fields(os.Getenv("GROUP")) {
		if info, err := os.Stat(folder); err == nil {
			fmt.Println("group", folder, info.Sys().(*syscall.Stat_t).Gid, info.Mode()&os.ModeSetgid != 0)
		}
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	for _, port := range strings.Fields(os.Getenv("LISTEN")) {
		l, err := net.Listen("tcp", ":"+port)
		fmt.Println("listen", port, err)
		if err == nil {
			go serve(l)
		}
	}
	fmt.Println("waits")
	<-stop
	fmt.Println("stopped")
}

// become makes a private folder for user 33 in DATA, and changes to that user, as servers do.
func become() {
	data := os.Getenv("DATA")
	if data == "" {
		return
	}
	folder := filepath.Join(data, "private")
	err := errors.Join(os.MkdirAll(folder, 0o700), os.Chown(folder, 33, 44), syscall.Setgroups(nil), syscall.Setgid(44), syscall.Setuid(33))
	fmt.Println("become", err)
}

// serve answers the first request of each connection with 200. Package net/http would do it as well, and be compiled for
// this program alone: half a minute of processor time.
func serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			for in := bufio.NewScanner(conn); in.Scan() && in.Text() != ""; {
			}
			_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
		}()
	}
}
