// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// corednsVariable names the program CoreDNS.
const corednsVariable = "KEELSON_COREDNS"

// Addresses of a cluster: of its only machine, and of the DNS server in the resolv.conf of pods.
var (
	machine    = net.IPv4(10, 99, 0, 1)
	dnsService = net.IPv4(10, 0, 0, 10)
)

// prepareNetwork gives the network namespace of this process the address of the machine, and a
// default route that leads nowhere. Packets to the addresses of services need the route, because
// kube-proxy's rules replace their destination only after the kernel has found a route.
func prepareNetwork(ctx context.Context) error {
	const bridge = "keelson"
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", bridge, "type", "bridge"},
		{"address", "add", machine.String() + "/24", "dev", bridge},
		{"link", "set", bridge, "up"},
		{"route", "add", "default", "via", "10.99.0.254"},
	} {
		if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, out)
		}
	}
	// Answers between two pods of one bridge must pass the rules of services, too.
	return os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte("1"), 0)
}

// corefile configures CoreDNS: its address, the domain of the cluster and the kubeconfig.
const corefile = `.:53 {
	bind %s
	errors
	cache 5
	kubernetes cluster.local in-addr.arpa ip6.arpa {
		kubeconfig %s
		pods insecure
	}
}
`

// dnsObjects are the service kube-dns and its endpoint, the machine. The parameters are the
// addresses of both.
const dnsObjects = `apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec: {clusterIP: %[1]s, ports: [{name: dns, protocol: UDP, port: 53}, {name: dns-tcp, protocol: TCP, port: 53}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kube-dns, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
addressType: IPv4
endpoints: [{addresses: [%[2]s]}]
ports: [{name: dns, protocol: UDP, port: 53}, {name: dns-tcp, protocol: TCP, port: 53}]
`

// startNetwork starts kube-proxy and CoreDNS, and creates the service kube-dns.
func (c *cluster) startNetwork(ctx context.Context, o options, logs string) error {
	file := filepath.Join(c.dir, "Corefile")
	kubeconfig := c.server.Kubeconfig()
	if err := os.WriteFile(file, fmt.Appendf(nil, corefile, machine, kubeconfig), 0o600); err != nil {
		return err
	}
	if err := c.startService(o.coredns, filepath.Join(logs, "coredns.log"), "-conf="+file); err != nil {
		return err
	}
	err := c.startService(filepath.Join(o.programs, "kube-proxy"), filepath.Join(logs, "kube-proxy.log"),
		"--kubeconfig="+kubeconfig, "--hostname-override="+nodeName, "--proxy-mode=iptables", "--cluster-cidr="+c.containerd.Subnet,
		// The limits of connections belong to the whole machine.
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s")
	if err != nil {
		return err
	}
	return c.apply(ctx, "kube-dns.yaml", fmt.Sprintf(dnsObjects, dnsService, machine))
}

// startService starts a program of the cluster whose output is written to the file log. The program
// runs until stop.
func (c *cluster) startService(program, log string, args ...string) error {
	out, err := os.Create(log)
	if err != nil {
		return err
	}
	cmd := exec.Command(program, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin"}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := errors.Join(cmd.Start(), out.Close()); err != nil {
		return fmt.Errorf("start %s: %w", filepath.Base(program), err)
	}
	c.services = append(c.services, cmd)
	return nil
}

// apply writes text to a file in the node's folder and applies its objects. apply waits until the
// API server accepts the objects, because the server creates their namespace after its start.
func (c *cluster) apply(ctx context.Context, name, text string) error {
	file := filepath.Join(c.dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		_, err := c.server.Kubectl(ctx, "apply", "-f", file)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(time.Second):
		}
	}
}
