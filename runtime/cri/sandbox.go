// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/runtime"
)

// sandbox is what is remembered of one: its configuration, which every call
// that makes a container has to repeat, and its addresses. It is a cache: what
// is not in it is asked for. Never written once it is shared.
type sandbox struct {
	config *api.PodSandboxConfig
	ips    []string // nil: not known yet, or on the host network
}

func (s *sandbox) hostNetwork() bool {
	return s.config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == api.NamespaceMode_NODE
}

// RunSandbox implements runtime.Runtime. It takes up to 4 min.
func (r *Runtime) RunSandbox(ctx context.Context, spec runtime.SandboxSpec) (runtime.SandboxID, error) {
	if spec.Pod == nil {
		return "", errors.New("SandboxSpec.Pod is missing")
	}
	if err := r.CheckPod(spec.Pod); err != nil {
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
		RuntimeHandler: handlerName(spec.Pod, r.opts.RuntimeHandlers),
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

// sandboxConfig reads the node's resolv.conf, which may have changed, and makes
// the configuration.
func (r *Runtime) sandboxConfig(spec runtime.SandboxSpec, users *api.UserNamespace) (*api.PodSandboxConfig, error) {
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
		r.log.Warn("DNS settings beyond what a resolv.conf can hold are left out",
			zap.String("pod", spec.Namespace+"/"+spec.Name), zap.String("podUID", string(spec.UID)), zap.Strings("dropped", dropped))
	}
	return sandboxConfig(spec, dns, users, &r.opts)
}

func (r *Runtime) remember(id runtime.SandboxID, s *sandbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.sandboxes[id] = s
}

func (r *Runtime) recall(id runtime.SandboxID) *sandbox {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.sandboxes[id]
}

func (r *Runtime) forget(id runtime.SandboxID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.sandboxes, id)
}

// learnIPs adds to the cache what a status says of the sandbox's addresses.
func (r *Runtime) learnIPs(id runtime.SandboxID, ips []string) {
	if len(ips) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.mu.sandboxes[id]; s != nil && s.ips == nil {
		r.mu.sandboxes[id] = &sandbox{config: s.config, ips: ips}
	}
}

// sandboxFor returns what the sandbox for a container is; from the runtime where
// it was made by another agent or its addresses are not known yet.
func (r *Runtime) sandboxFor(ctx context.Context, id runtime.SandboxID, spec runtime.ContainerSpec) (*sandbox, error) {
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

// foundConfig is the configuration of a sandbox that somebody else made.
func (r *Runtime) foundConfig(st *api.PodSandboxStatus, spec runtime.ContainerSpec) (*api.PodSandboxConfig, error) {
	users := st.GetLinux().GetNamespaces().GetOptions().GetUsernsOptions()
	if users == nil { // the runtime does not tell, or there are none
		var err error
		if users, err = r.opts.users(spec.Pod); err != nil {
			return nil, err
		}
	}
	return r.sandboxConfig(foundSandbox(st, spec), users)
}

func (r *Runtime) sandboxStatus(ctx context.Context, id string) (*api.PodSandboxStatus, error) {
	answer, err := do(ctx, callTimeout, "PodSandboxStatus", r.cri.PodSandboxStatus, &api.PodSandboxStatusRequest{PodSandboxId: id})
	if err != nil {
		return nil, err
	}
	if answer.GetStatus().GetMetadata() == nil {
		return nil, &CallError{Call: "PodSandboxStatus", Message: "the runtime answered without a status"}
	}
	return answer.GetStatus(), nil
}

// StopSandbox implements runtime.Runtime. The containers are killed one by one
// first, because runtimes differ in how long they let them live. It returns when
// the runtime also says that the sandbox is not ready, which containerd 2 may do a
// moment later.
func (r *Runtime) StopSandbox(ctx context.Context, id runtime.SandboxID) error {
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

func (r *Runtime) awaitNotReady(ctx context.Context, id runtime.SandboxID) error {
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
		if err := pause(ctx, wait); err != nil {
			return fmt.Errorf("StopPodSandbox: %w", err)
		}
	}
}

func (r *Runtime) killSandbox(ctx context.Context, id runtime.SandboxID) error {
	containers, err := r.listContainers(ctx, &api.ContainerFilter{PodSandboxId: string(id)})
	if err != nil {
		return err
	}
	containers = deleteFunc(containers, func(c *api.Container) bool { return !mayRun(c.GetState()) })
	return forEach(ctx, r.opts.ParallelInspections, containers, func(ctx context.Context, c *api.Container) error {
		return gone(r.stopFirmly(ctx, c.GetId(), 0))
	})
}

// RemoveSandbox implements runtime.Runtime. With the pod's last sandbox go the
// files that the agent made for the pod.
func (r *Runtime) RemoveSandbox(ctx context.Context, id runtime.SandboxID) error {
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
	// Most runtimes do it by themselves; the CRI leaves room.
	for _, c := range containers {
		if err := gone(r.RemoveContainer(ctx, runtime.ContainerID{Runtime: r.Name(), ID: c.GetId()})); err != nil {
			return err
		}
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

// removePodFiles removes the pod's files unless it has another sandbox.
func (r *Runtime) removePodFiles(ctx context.Context, uid types.UID) error {
	rest, err := r.listSandboxes(ctx, &api.PodSandboxFilter{LabelSelector: map[string]string{runtime.LabelPodUID: string(uid)}})
	if err != nil || len(rest) > 0 {
		return err
	}
	return r.files.removePod(uid)
}

// gone takes "it does not exist" for success.
func gone(err error) error {
	if errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	return err
}

// withoutKindNotFound is for calls whose "not found" is about something that
// the caller did not name.
func withoutKindNotFound(err error) error {
	if errors.Is(err, runtime.ErrNotFound) {
		return withoutKind(err)
	}
	return err
}
