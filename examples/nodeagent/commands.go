// SPDX-License-Identifier: Apache-2.0

//go:build !nolocalapi

package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
)

// verb is a command for the agent of this machine, such as "nodeagent ps".
type verb struct {
	name, args, about string
	run               func(ctx context.Context, c *client, args []string, out io.Writer) error
}

func commands() []verb {
	return []verb{
		{name: "kubeconfig", about: "print a kubeconfig for kubectl; the agent needs --kubectl-port", run: func(ctx context.Context, c *client, _ []string, out io.Writer) error {
			return printKubeconfig(ctx, c, out)
		}},
		{name: "token", about: "print a token for kubectl, as the kubeconfig asks for", run: func(ctx context.Context, c *client, _ []string, out io.Writer) error {
			return printToken(ctx, c, out)
		}},
	}
}

func runCommand(args []string, out, errOut io.Writer) (code int, isCommand bool) {
	for _, one := range commands() {
		if len(args) == 0 || args[0] != one.name {
			continue
		}
		set := pflag.NewFlagSet("nodeagent "+one.name, pflag.ContinueOnError)
		root := set.String("root-dir", defaultRoot(), "root folder of the agent")
		socket := set.String("socket", "", "socket of the agent")
		if err := set.Parse(args[1:]); err != nil {
			return 2, true
		}
		if *socket == "" {
			*socket = defaultSocket(*root)
		}
		if err := one.run(context.Background(), newClient(*socket), set.Args(), out); err != nil {
			fmt.Fprintln(os.Stderr, "nodeagent:", err)
			return 1, true
		}
		return 0, true
	}
	return 0, false
}
