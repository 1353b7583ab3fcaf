// SPDX-License-Identifier: Apache-2.0

// Command runfleet runs simulated nodes on a real API server, until it is interrupted.
//
//	runfleet -kubeconfig FILE -nodes 1000
//
// Several processes, also on different machines, divide the nodes with -shard 0/2 and -shard 1/2. See
// package fleet.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"go.uber.org/zap"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/keelson-dev/keelson/examples/simulation/fleet"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "runfleet:", err)
		}
		os.Exit(2)
	}
}

// run runs the fleet until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o := fleet.Options{Shards: 1}
	flags := flag.NewFlagSet("runfleet", flag.ContinueOnError)
	flags.SetOutput(stderr)
	kubeconfig := flags.String("kubeconfig", "", "`file` with the address and the credentials of an API server for simulations")
	flags.IntVar(&o.Nodes, "nodes", 100, "the `number` of nodes in all shards")
	flags.StringVar(&o.Name, "name", "sim", "the first `part` of the names of nodes")
	flags.Func("shard", "run a part of the nodes, such as `0/2` and 1/2 for two processes", func(text string) (err error) {
		o.Shard, o.Shards, err = parseShard(text)
		return err
	})
	flags.BoolVar(&o.Schedule, "schedule", false, "bind pods to the nodes, for an API server without a scheduler")
	keep := flags.Bool("keep", false, "leave the Node objects on the API server at the end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *kubeconfig == "" {
		return errors.New("want -kubeconfig FILE, and no arguments")
	}
	var err error
	if o.Config, err = clientcmd.BuildConfigFromFlags("", *kubeconfig); err != nil {
		return fmt.Errorf("-kubeconfig: %w", err)
	}
	if o.Logger, err = zap.NewProduction(zap.IncreaseLevel(zap.WarnLevel)); err != nil {
		return err
	}
	if o.Root, err = os.MkdirTemp("", "runfleet"); err != nil {
		return err
	}
	defer os.RemoveAll(o.Root)
	f, err := fleet.New(o)
	if err != nil {
		return err
	}
	go func() {
		select {
		case <-f.Registered():
			fmt.Fprintf(stdout, "%d nodes are registered\n", len(f.Cluster().Nodes()))
		case <-ctx.Done():
		}
	}()
	err = f.Run(ctx)
	if !*keep {
		err = errors.Join(err, f.Delete(context.WithoutCancel(ctx)))
	}
	return err
}

// parseShard parses 0/2.
func parseShard(text string) (shard, shards int, err error) {
	first, second, _ := strings.Cut(text, "/")
	shard, err = strconv.Atoi(first)
	if err == nil {
		shards, err = strconv.Atoi(second)
	}
	if err != nil || shard < 0 || shard >= shards {
		return 0, 0, fmt.Errorf("%q: want a number, a slash and a larger number", text)
	}
	return shard, shards, nil
}
