// SPDX-License-Identifier: Apache-2.0

// Command nodeagent runs Kubernetes pods from a folder of manifests. By default each container is a
// process of the host, so the command needs no cluster, no container engine and no root.
//
//	go run ./examples/nodeagent examples/manifests
//
// As root, nodeagent can run the containers with a container runtime:
//
//	nodeagent examples/manifests --container-runtime-endpoint unix:///run/containerd/containerd.sock
//
// The agent itself is package node, in the folder node. This command parses flags, connects package
// node with a runtime, sources and an API server, and serves HTTP.
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
	"strconv"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/updates"
	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/cri"
	"github.com/keelson-dev/keelson/runtime/process"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

func main() {
	recordHeap(false)
	process.Main()                                 // each container runs below a copy of this program as its shim
	if len(os.Args) > 1 && os.Args[1] == "audit" { // for a manifest folder of that name, pass ./audit
		os.Exit(audit(os.Args[2:], os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 && (os.Args[1] == "history" || os.Args[1] == "rollback") {
		os.Exit(changeVersions(os.Args[1], os.Args[2:], os.Stdout, os.Stderr))
	}
	if code, isCommand := runCommand(os.Args[1:], os.Stdout, os.Stderr); isCommand {
		os.Exit(code)
	}
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

// run constructs all parts of the program and runs the agent until a signal.
func run(f flags) error {
	// The first signal starts a graceful shutdown. A second signal kills the program.
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // ignored under nohup
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	context.AfterFunc(ctx, stop)
	// A closed pipe of the log's reader must not kill the agent.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	if err := os.MkdirAll(f.root, 0o700); err != nil {
		return fmt.Errorf("--root-dir: %w", err)
	}
	if err := f.host.check(os.DirFS("/")); err != nil {
		return err
	}
	saveMemory()
	recordHeap(f.profiling)
	f.host.profile(f.profiling)
	out, err := newOutput(f)
	if err != nil {
		return err
	}
	defer out.close()
	receiveKlog(out.log, out.verbosity)
	f.config.tell(out.log)
	f.gates.tell(out.log)
	f.shutdown.follow(out.log)
	lock, err := node.LockRoot(ctx, f.root, out.log) // before listening: another agent that is ending also holds the port
	if err != nil {
		return fmt.Errorf("--root-dir: %w", err)
	}
	defer lock.Unlock()
	manager := newNotifier(out.log)
	f.once.attend(out)
	var member *membership
	var find findHandler
	if f.kubeconfig != "" {
		find = func(ctx context.Context, class string) (string, error) { return member.class(ctx, class) } // not called before agent.Run
	}
	rt, closeRuntime, err := newRuntime(ctx, f, find, out.log)
	if err != nil {
		return err
	}
	defer closeRuntime()
	numbers := newMetrics(f.node)
	backend, _ := rt.(cri.Backend)
	groups, err := newCgroups(f, backend, numbers, out.log)
	if err != nil {
		return err
	}
	var agent *node.Agent
	changed := func(r objects.Ref) { agent.Refresh(r) } // not called before agent.Run
	store, err := objects.NewStore(objects.Options{Changed: changed})
	if err != nil {
		return err
	}
	folders := func(uid types.UID) map[string]string { return agent.VolumeFolders(uid) }
	usage, err := newCollector(f, rt, func() []*v1.Pod { return agent.Pods() }, folders) // not called before agent.Run
	if err != nil {
		return err
	}
	evictor, err := newEvictor(ctx, f, usage, numbers, out.log)
	if err != nil {
		return err
	}
	devices, err := newDevices(f, numbers, out.log)
	if err != nil {
		return err
	}
	if f.kubeconfig != "" {
		tell := news{changed: changed, nodeChanged: func(n *v1.Node) { agent.NodeChanged(n) },
			runtime: rt, agent: func() *node.Agent { return agent }, evictor: evictor, devices: devices}
		if member, err = joinCluster(f, tell, out.log); err != nil {
			return err
		}
		defer member.leave()
	}
	local, err := newLocal(f, out.log)
	if err != nil {
		return err
	}
	tokens := func() tokenMaker { return agent }
	transactions, err := newUpdates(f)
	if err != nil {
		return err
	}
	kinds, err := newKinds(f, store, out.log)
	if err != nil {
		return err
	}
	archives, err := newArchives(ctx, f, out.log)
	if err != nil {
		return err
	}
	all := joinFeatures(cgroupFeatures(groups), evictor.features(func() *node.Agent { return agent }), devices.features, linkFeatures(f, out.log),
		f.gates.features(out.log), kinds.features, archives, hotplugFeatures, hostNeeds(f))
	if agent, err = newAgent(ctx, f, lock, rt, store, member, tokens, all, numbers, kinds, transactions, local, out); err != nil {
		return err
	}
	numbers.watch(agent)
	listener, err := listenReadOnly(ctx, f)
	if err != nil {
		return err
	}
	parts := serverParts{agent: agent, runtime: rt, usage: usage, metrics: numbers, devices: devices, verbosity: out.verbosity, log: out.log}
	if member != nil {
		parts.identity = member.identity
	}
	serveKubectl, err := newServer(ctx, f, parts)
	if err != nil {
		return err
	}
	serveLocal, err := local.start(ctx, parts)
	if err != nil {
		return err
	}
	readUsage, err := usageHandler(usage)
	if err != nil {
		return err
	}
	serveHealthz, err := newHealthz(ctx, f, parts)
	if err != nil {
		return err
	}

	var wg sync.WaitGroup
	defer wg.Wait()
	serving, stopServing := context.WithCancel(context.Background())
	defer stopServing()
	if listener != nil {
		wg.Go(func() {
			serve(serving, listener, node.CheckHost(handler(agent.Handler(), readUsage, numbers, f.profilesReadOnly()), f.names()...))
		})
	}
	if transactions != nil {
		wg.Go(func() { followRequests(serving, f, transactions) })
	}
	wg.Go(func() { serveKubectl(serving) })
	wg.Go(func() { serveHealthz(serving) })
	wg.Go(func() { serveLocal(serving) })
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
		wg.Go(func() { _ = member.run(serving) }) // returns nil when serving ends
	}
	out.started(f)
	wg.Go(func() { out.show(serving, agent, local.poke) })
	wg.Go(func() { manager.run(serving, agent) })
	context.AfterFunc(ctx, func() {
		out.stopping(f)
		manager.stopping(f.stopTime())
		if member != nil {
			member.ending()
		}
	})
	if f.once.on {
		return f.once.run(ctx, agent)
	}
	return agent.Run(ctx)
}

func newAgent(ctx context.Context, f flags, lock *node.RootLock, rt runtime.Runtime, store *objects.Store, member *membership, tokens func() tokenMaker, all features, numbers *metrics, kinds *localKinds, transactions *updates.Updates, local *local, out *output) (*node.Agent, error) {
	sources, err := newSources(f, kinds, transactions, out.log)
	if err != nil {
		return nil, err
	}
	opts := node.Options{
		NodeName: f.node,
		Root:     f.root,
		RootLock: lock,
		LogDir:   f.logs,
		Runtime:  rt,
		Sources:  sources,
		Objects:  store,
		Observer: numbers.observer(),
		Features: all,
		HostIPs:  f.hostIPs(ctx),
		Logger:   out.log,

		MaxConcurrentStarts: f.starts,
		MaxConcurrentPulls:  f.pulls.limit,
		Backoff:             runtime.Backoff{Max: f.restarts},
		RegistryAuthFile:    f.authFile,
	}
	if transactions != nil {
		opts.Sources, opts.Features = transactions.Sources(sources...), joinFeatures(all, transactions.Features)
	}
	if member != nil {
		opts.Sources = append(opts.Sources, member.source)
		opts.Cluster = member.cluster
		opts.Objects = allObjects{own: store, cluster: member.objects}
	}
	kinds.apply(&opts)
	local.apply(&opts)
	if opts.NodeKeyring, err = f.plugins.keyring(numbers, out.log); err != nil {
		return nil, err
	}
	if opts.VolumePlugins, err = newCSI(f, opts.Objects, member, tokens); err != nil {
		return nil, err
	}
	if backend, ok := rt.(cri.Backend); ok {
		opts.ImageGC = criGC(f, backend)
	} else {
		opts.ImageGC = storeGC(f, rt)
	}
	if err := f.verify.apply(f, &opts); err != nil {
		return nil, err
	}
	if f.manifestURL != "" || f.kubeconfig != "" {
		opts.Checkpoint = filepath.Join(f.root, "desired", "checkpoint")
	}
	if f.keepPods {
		opts.OnShutdown, opts.MachineStops = node.KeepPods, f.shutdown.endPods
	}
	opts.StopTimeout = f.shutdown.stop
	if opts.ShutdownClasses, err = f.shutdown.classes(); err != nil {
		return nil, err
	}
	f.offer.apply(&opts)
	return node.New(opts)
}

// portPatience is how long listen retries while the port is in use. A killed agent releases its
// lock shortly before its port.
const portPatience = 2 * time.Second

func listenReadOnly(ctx context.Context, f flags) (net.Listener, error) {
	if f.port == 0 {
		return nil, nil
	}
	l, err := listen(ctx, f.address, f.port)
	if err != nil {
		return nil, fmt.Errorf("serve /healthz, /pods and /metrics: %w (choose another --read-only-port, or 0 for none)", err)
	}
	return l, nil
}

func listen(ctx context.Context, host string, port int) (net.Listener, error) {
	address := net.JoinHostPort(host, strconv.Itoa(port))
	l, err := net.Listen("tcp", address)
	for late := time.Now().Add(portPatience); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(late) && retry.Sleep(ctx, 20*time.Millisecond) == nil; {
		l, err = net.Listen("tcp", address)
	}
	return l, err
}

func serve(ctx context.Context, l net.Listener, h http.Handler) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	server.Serve(l)
}
