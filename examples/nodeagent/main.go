// SPDX-License-Identifier: Apache-2.0

// Command nodeagent runs Kubernetes pods from a folder of manifests: every
// container a process of its own, no cluster, no container engine, no root.
//
//	go run ./examples/nodeagent examples/manifests
//
// Or, as root, in containers of a container runtime:
//
//	nodeagent examples/manifests --container-runtime-endpoint unix:///run/containerd/containerd.sock
//
// The agent itself is package nodeagent below; this file only reads flags and
// picks a runtime.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeagent"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/cri"
	"github.com/keelson-dev/keelson/runtime/process"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(20) // an agent does little, and its node has better use for the memory
	}
	process.Main() // this program is also the shim that each container runs under
	flags, err := parseFlags(os.Args[1:])
	switch {
	case errors.Is(err, errAnswered):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "nodeagent:", err)
		os.Exit(2)
	}
	if err := run(flags); err != nil {
		fmt.Fprintln(os.Stderr, "nodeagent:", err)
		os.Exit(1)
	}
}

// run owns everything that lives as long as the agent.
func run(f flags) error {
	// The first signal ends the agent in its own time, a second one at once.
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	context.AfterFunc(ctx, stop)
	// A reader of the log that goes away is no reason to die.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	unlock, err := lockRoot(f.root)
	if err != nil {
		return err
	}
	defer unlock()
	out, err := newOutput(f)
	if err != nil {
		return err
	}
	defer out.close()
	manager := newNotifier(out.log)
	f.once.attend(out)
	rt, closeRuntime, err := newRuntime(ctx, f, out.log)
	if err != nil {
		return err
	}
	defer closeRuntime()
	numbers := newMetrics(f.node)
	var agent *nodeagent.Agent
	changed := func(r objects.Ref) { agent.Refresh(r) } // not before something runs
	store, err := objects.NewStore(objects.Options{Changed: changed})
	if err != nil {
		return err
	}
	var member *membership
	if f.kubeconfig != "" {
		tell := news{changed: changed, nodeChanged: func(n *v1.Node) { agent.NodeChanged(n) },
			runtime: rt, agent: func() *nodeagent.Agent { return agent }}
		if member, err = joinCluster(f, tell, out.log); err != nil {
			return err
		}
		defer member.leave()
	}
	tokens := func() tokenMaker { return agent }
	if agent, err = newAgent(f, rt, store, member, tokens, numbers, out); err != nil {
		return err
	}
	numbers.watch(agent)
	listener, err := listen(f)
	if err != nil {
		return err
	}

	var wg sync.WaitGroup
	defer wg.Wait()
	serving, stopServing := context.WithCancel(context.Background())
	defer stopServing()
	if listener != nil {
		wg.Go(func() { serve(serving, listener, handler(agent.Handler(), numbers, f.profiling)) })
	}
	wg.Go(func() { out.show(serving, agent) })
	defer out.ended()
	if err := rotateLogs(serving, f, rt, out.log, &wg); err != nil {
		return err
	}
	if f.objects != "" {
		folder, ready := newObjectFolder(f.objects, store, out.log), make(chan struct{})
		wg.Go(func() { folder.follow(serving, ready) })
		<-ready
	}
	if member != nil {
		wg.Go(func() { _ = member.run(serving) }) // nil when serving ends
	}
	out.started(f)
	wg.Go(func() { manager.run(serving, agent) })
	context.AfterFunc(ctx, func() {
		out.stopping(f)
		manager.stopping(f.shutdown.longest())
		if member != nil {
			member.ending()
		}
	})
	if f.once.on {
		return f.once.run(ctx, agent)
	}
	return agent.Run(ctx)
}

func newAgent(f flags, rt runtime.Runtime, store *objects.Store, member *membership, tokens func() tokenMaker, numbers *metrics, out *output) (*nodeagent.Agent, error) {
	sources, err := newSources(f, out.log)
	if err != nil {
		return nil, err
	}
	opts := nodeagent.Options{
		NodeName: f.node,
		Root:     f.root,
		LogDir:   f.logs,
		Runtime:  rt,
		Sources:  sources,
		Objects:  store,
		Observer: numbers.observer(),
		HostIPs:  hostIPs(),
		Logger:   out.log,

		MaxConcurrentStarts: f.starts,
		RegistryAuthFile:    f.authFile,
	}
	if member != nil {
		opts.Sources = append(opts.Sources, member.source)
		opts.Cluster = member.cluster
		opts.Objects = allObjects{own: store, cluster: member.objects}
	}
	if opts.VolumePlugins, err = newCSI(f, opts.Objects, member, tokens); err != nil {
		return nil, err
	}
	if backend, ok := rt.(cri.Backend); ok {
		opts.ImageGC = imageGC(f, backend)
	}
	if f.manifestURL != "" || f.kubeconfig != "" {
		opts.Checkpoint = filepath.Join(f.root, "desired", "checkpoint")
	}
	if f.keepPods {
		opts.OnShutdown = nodeagent.KeepPods
	}
	opts.StopTimeout = f.shutdown.stop
	if opts.ShutdownClasses, err = f.shutdown.classes(); err != nil {
		return nil, err
	}
	f.offer.apply(&opts)
	return nodeagent.New(opts)
}

func listen(f flags) (net.Listener, error) {
	if f.port == 0 {
		return nil, nil
	}
	address := net.JoinHostPort(f.address, strconv.Itoa(f.port))
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve /healthz, /pods and /metrics: %w (choose another --read-only-port, or 0 for none)", err)
	}
	return l, nil
}

func serve(ctx context.Context, l net.Listener, h http.Handler) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	server.Serve(l)
}

// hostIPs are the node's addresses, the first of each family that is neither
// loopback nor link-local; loopback where there is no network, so that what
// listens can be probed.
func hostIPs() []string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var v4, v6 []string
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		switch {
		case !ok || !n.IP.IsGlobalUnicast():
		case n.IP.To4() != nil:
			v4 = append(v4, n.IP.String())
		default:
			v6 = append(v6, n.IP.String())
		}
	}
	if len(v4)+len(v6) == 0 {
		return []string{"127.0.0.1"}
	}
	return append(v4[:min(len(v4), 1)], v6[:min(len(v6), 1)]...)
}
