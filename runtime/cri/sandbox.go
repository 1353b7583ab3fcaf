// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/runtime"
)

// sandbox caches a sandbox's configuration, which every CreateContainer has to repeat, and the
// sandbox's addresses. Missing entries are read from the runtime. A shared sandbox is never
// written.
type sandbox struct {
	config *api.PodSandboxConfig
	ips    []string // nil: not known yet, or on the host network
}

func (s *sandbox) hostNetwork() bool {
	return s.config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == api.NamespaceMode_NODE
}

// RunSandbox implements runtime.Runtime. RunSandbox takes up to 4 min.
func (r *client) RunSandbox(ctx context.Context, spec runtime.SandboxSpec) (runtime.SandboxID, error) {
	if spec.Pod == nil {
		return "", errors.New("SandboxSpec.Pod is missing")
	}
	opts, err := r.findHandler(ctx, spec.Pod)
	if err != nil {
		return "", err
	}
	users, err := r.opts.users(spec.Pod)
	if err != nil {
		return "", err
	}
	config, err := r.sandboxConfig(spec, users)
	if err != nil {
		return "", err
	}
	if spec.LogDirectory != "" {
		if err := os.MkdirAll(spec.LogDirectory, logDirMode); err != nil {
			return "", fmt.Errorf("make the pod's log directory: %w", err)
		}
	}
	answer, err := do(ctx, sandboxTimeout, "RunPodSandbox", r.cri.RunPodSandbox, &api.RunPodSandboxRequest{
		Config:         config,
		RuntimeHandler: handlerName(spec.Pod, opts.RuntimeHandlers),
	})
	if err != nil {
		return "", withoutKindNotFound(err)
	}
	id := runtime.SandboxID(answer.GetPodSandboxId())
	if !goodID(string(id)) {
		return "", fmt.Errorf("RunPodSandbox: the runtime answered with %q for an ID", id)
	}
	r.remember(id, &sandbox{config: config})
	return id, nil
}

// sandboxConfig reads the node's current resolv.conf and returns the configuration.
func (r *client) sandboxConfig(spec runtime.SandboxSpec, users *api.UserNamespace) (*api.PodSandboxConfig, error) {
	var host resolver
	if wantsHostDNS(spec.Pod) {
		text, err := os.ReadFile(r.opts.DNS.ResolvConf)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("read the node's DNS settings: %w", err)
		}
		host = parseResolvConf(string(text))
	}
	dns, dropped := podDNS(spec.Pod, r.opts.DNS, host)
	if len(dropped) > 0 {
		r.log.Warn("DNS settings beyond the limits of resolv.conf are left out",
			zap.String("pod", spec.Namespace+"/"+spec.Name), zap.String("podUID", string(spec.UID)), zap.Strings("dropped", dropped))
	}
	return sandboxConfig(spec, dns, users, &r.opts)
}

func (r *client) remember(id runtime.SandboxID, s *sandbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.sandboxes[id] = s
}

func (r *client) recall(id runtime.SandboxID) *sandbox {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.sandboxes[id]
}

func (r *client) forget(id runtime.SandboxID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.sandboxes, id)
}

// learnIPs adds the addresses of a sandbox's status to the cache.
func (r *client) learnIPs(id runtime.SandboxID, ips []string) {
	if len(ips) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.mu.sandboxes[id]; s != nil && s.ips == nil {
		r.mu.sandboxes[id] = &sandbox{config: s.config, ips: ips}
	}
}

// sandboxFor returns the cached sandbox, or reads the runtime's status for a sandbox made by
// another agent or without known addresses.
func (r *client) sandboxFor(ctx context.Context, id runtime.SandboxID, spec runtime.ContainerSpec) (*sandbox, error) {
	s := r.recall(id)
	if s != nil && (s.ips != nil || s.hostNetwork()) {
		return s, nil
	}
	st, err := r.sandboxStatus(ctx, string(id))
	if err != nil {
		return nil, err
	}
	found := &sandbox{ips: sandboxIPs(st)}
	if s != nil {
		found.config = s.config
	} else if found.config, err = r.foundConfig(st, spec); err != nil {
		return nil, err
	}
	r.remember(id, found)
	return found, nil
}

// foundConfig is the configuration of a sandbox made by another agent.
func (r *client) foundConfig(st *api.PodSandboxStatus, spec runtime.ContainerSpec) (*api.PodSandboxConfig, error) {
	users := st.GetLinux().GetNamespaces().GetOptions().GetUsernsOptions()
	if users == nil { // not reported by the runtime, or no user namespace
		var err error
		if users, err = r.opts.users(spec.Pod); err != nil {
			return nil, err
		}
	}
	return r.sandboxConfig(foundSandbox(st, spec), users)
}

func (r *client) sandboxStatus(ctx context.Context, id string) (*api.PodSandboxStatus, error) {
	answer, err := do(ctx, callTimeout, "PodSandboxStatus", r.cri.PodSandboxStatus, &api.PodSandboxStatusRequest{PodSandboxId: id})
	if err != nil {
		return nil, err
	}
	if answer.GetStatus().GetMetadata() == nil {
		return nil, &CallError{Call: "PodSandboxStatus", Message: "the runtime answered without a status"}
	}
	return answer.GetStatus(), nil
}

// StopSandbox implements runtime.Runtime. StopSandbox first kills the containers, because runtimes
// differ in the grace given to containers. StopSandbox returns when the runtime also reports the
// sandbox as not ready. containerd 2 may do so a moment later.
func (r *client) StopSandbox(ctx context.Context, id runtime.SandboxID) error {
	if !goodID(string(id)) {
		return notFound("StopPodSandbox", string(id))
	}
	if err := r.killSandbox(ctx, id); err != nil {
		return err
	}
	err := again(ctx, func(ctx context.Context) error {
		_, err := do(ctx, callTimeout, "StopPodSandbox", r.cri.StopPodSandbox, &api.StopPodSandboxRequest{PodSandboxId: string(id)})
		return err
	}, r.sandboxExists(id))
	if err != nil {
		return err
	}
	return r.awaitNotReady(ctx, id)
}

func (r *client) awaitNotReady(ctx context.Context, id runtime.SandboxID) error {
	began := time.Now()
	for wait := firstPause; ; wait = min(2*wait, longestPause) {
		st, err := r.sandboxStatus(ctx, string(id))
		switch {
		case err != nil:
			return gone(err)
		case st.GetState() != api.PodSandboxState_SANDBOX_READY:
			return nil
		case time.Since(began) > statusPatience:
			return fmt.Errorf("StopPodSandbox: the runtime says that the sandbox has stopped, and %s later that it is ready", statusPatience)
		}
		if err := retry.Sleep(ctx, wait); err != nil {
			return fmt.Errorf("StopPodSandbox: %w", err)
		}
	}
}

func (r *client) killSandbox(ctx context.Context, id runtime.SandboxID) error {
	containers, err := r.listContainers(ctx, &api.ContainerFilter{PodSandboxId: string(id)})
	if err != nil {
		return err
	}
	containers = deleteFunc(containers, func(c *api.Container) bool { return !mayRun(c.GetState()) })
	return forEach(ctx, containers, func(ctx context.Context, c *api.Container) error {
		return gone(r.stopFirmly(ctx, c.GetId(), 0))
	})
}

// RemoveSandbox implements runtime.Runtime. The removal of the pod's last sandbox also removes the
// agent's files for the pod.
func (r *client) RemoveSandbox(ctx context.Context, id runtime.SandboxID) error {
	if !goodID(string(id)) {
		return notFound("RemovePodSandbox", string(id))
	}
	st, err := r.sandboxStatus(ctx, string(id))
	if errors.Is(err, runtime.ErrNotFound) {
		r.forget(id)
		return err
	}
	if err != nil {
		return err
	}
	containers, err := r.listContainers(ctx, &api.ContainerFilter{PodSandboxId: string(id)})
	if err != nil {
		return err
	}
	if err := gone(r.StopSandbox(ctx, id)); err != nil {
		return err
	}
	// Most runtimes remove the containers by themselves; the CRI does not require so.
	for _, c := range containers {
		if err := gone(r.RemoveContainer(ctx, runtime.ContainerID{Runtime: r.Name(), ID: c.GetId()})); err != nil {
			return err
		}
	}
	if err := r.removeLostTask(ctx, st); err != nil {
		return err
	}
	err = again(ctx, func(ctx context.Context) error {
		_, err := do(ctx, callTimeout, "RemovePodSandbox", r.cri.RemovePodSandbox, &api.RemovePodSandboxRequest{PodSandboxId: string(id)})
		return err
	}, r.sandboxExists(id))
	if gone(err) != nil {
		return err
	}
	r.forget(id)
	return r.removePodFiles(ctx, types.UID(st.GetMetadata().GetUid()))
}

// removePodFiles removes the pod's files unless the pod has another sandbox.
func (r *client) removePodFiles(ctx context.Context, uid types.UID) error {
	rest, err := r.listSandboxes(ctx, &api.PodSandboxFilter{LabelSelector: map[string]string{containermeta.LabelPodUID: string(uid)}})
	if err != nil || len(rest) > 0 {
		return err
	}
	return r.files.removePod(uid)
}

// gone returns nil for a "not found" error.
func gone(err error) error {
	if errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	return err
}

// withoutKindNotFound is for calls whose "not found" concerns an object not named by the caller.
func withoutKindNotFound(err error) error {
	if errors.Is(err, runtime.ErrNotFound) {
		return withoutKind(err)
	}
	return err
}
