// SPDX-License-Identifier: Apache-2.0

// Command natsagent runs pods from a key-value bucket of NATS JetStream as processes, and reports their
// statuses to another bucket. Package natsbus has the keys.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/nats-io/nats.go"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/natsagent/natsbus"
	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/updates"
	"github.com/keelson-dev/keelson/runtime/process"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

func main() {
	process.Main() // this program is also the shim that each container runs under
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 4 {
		log.Fatal("usage: natsagent NATS-URL NODE STATE-FOLDER; buckets: desired, statuses")
	}
	if err := run(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url, name, state string) error {
	state, err := filepath.Abs(state)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return err
	}
	conn, err := nats.Connect(url, nats.Name(name), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer conn.Close()
	rt, err := process.New(process.Options{Root: filepath.Join(state, "process")})
	if err != nil {
		return err
	}
	transactions, err := updates.New(updates.Options{Default: updates.Transactional})
	if err != nil {
		return err
	}
	var agent *node.Agent
	store, err := objects.NewStore(objects.Options{Changed: func(r objects.Ref) {
		if agent != nil { // nil while the cache is read
			agent.Refresh(r)
		}
	}})
	if err != nil {
		return err
	}
	bus, err := natsbus.New(natsbus.Options{
		Node: name, Conn: conn, Desired: "desired", Statuses: "statuses", Store: store,
		Pods:  func() []*v1.Pod { return agent.Pods() }, // the agent runs the bus
		Cache: filepath.Join(state, "objects"),
		Problem: func(key string, err error) {
			if key != "" {
				transactions.Problem(key, err) // an invalid manifest at the start does not remove its pod
			}
			if err != nil {
				log.Printf("bus: %s: %v", key, err)
			}
		},
	})
	if err != nil {
		return err
	}
	agent, err = node.New(node.Options{
		NodeName: name, Root: state, Runtime: rt, Objects: store, OnShutdown: node.KeepPods,
		Sources:    transactions.Sources(bus),
		Checkpoint: filepath.Join(state, "checkpoint", "pods"),
		Status:     bus.Reports().Set,
		Features: func(h *feature.Host) []feature.Feature {
			return append(transactions.Features(h), feature.Feature{Name: "reports", Ended: func(pod *v1.Pod) { bus.Reports().Gone(pod) }})
		},
	})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	reporting, stop := context.WithCancel(context.WithoutCancel(ctx)) // the last statuses are those of the shutdown
	defer stop()
	var failed error
	wg.Go(func() { failed = bus.Reports().Run(reporting) })
	err = agent.Run(ctx)
	stop()
	wg.Wait()
	return errors.Join(err, failed)
}
