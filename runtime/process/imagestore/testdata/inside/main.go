// SPDX-License-Identifier: Apache-2.0

// Command inside is the program of an image. It prints its surroundings and then does what its
// first argument says.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"sort"
	"syscall"
)

func main() {
	dir, _ := os.Getwd()
	fmt.Println("args", os.Args[1:])
	fmt.Println("ids", os.Getuid(), os.Getgid())
	fmt.Println("dir", dir)
	for _, name := range []string{"PATH", "HOME", "FROM", "HOSTNAME"} {
		fmt.Println(name, os.Getenv(name))
	}
	var names []string
	entries, err := os.ReadDir("/")
	for _, e := range entries {
		names = append(names, e.Name())
	}
	sort.Strings(names)
	fmt.Println("root", names, err)
	base, err := os.ReadFile("/etc/base")
	fmt.Printf("base %s %v\n", base, err)
	fmt.Println("write", os.WriteFile("/etc/base", []byte("changed"), 0o644))
	data, err := os.ReadFile("/data/file")
	fmt.Printf("data %s %v\n", data, err)
	if len(os.Args) > 1 && os.Args[1] == "wait" {
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGQUIT)
		fmt.Println("ready")
		<-stop
		fmt.Println("stopped by SIGQUIT")
		os.Exit(7)
	}
	fmt.Println("done")
}
