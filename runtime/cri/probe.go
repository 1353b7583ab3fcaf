// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// Info describes the runtime behind the socket, found by Dial.
type Info struct {
	Name       string // "containerd" or "cri-o"; the Runtime of every ContainerID
	Version    string // the runtime's own, as in "2.4.2"
	APIVersion string // of the CRI, "v1"

	// Events means the runtime sends container events.
	Events bool
	// CgroupDriver is "systemd" or "cgroupfs", or "" where the runtime does not
	// say (containerd 1).
	CgroupDriver string
	// Handlers are the runtime's handlers by name; "" is the default. nil if the runtime does not
	// report handlers (containerd 1).
	Handlers map[string]Handler
	// SupplementalGroupsPolicy means the runtime honours supplementalGroupsPolicy of the pod's
	// security context.
	SupplementalGroupsPolicy bool
	// UserNamespacesHostNetwork means a pod may be on the host network and in a user namespace.
	UserNamespacesHostNetwork bool
	// ImageVolumes means images can be mounted as volumes, and ImageVolumeSubPaths means parts of
	// images can. The CRI does not report either ability. Both are derived from the versions of
	// containerd (2.1, 2.2) and CRI-O (1.31, 1.33).
	ImageVolumes, ImageVolumeSubPaths bool
	// CDIDevices means devices can be requested by CDI name, derived from the versions of
	// containerd (2.0) and CRI-O (1.28).
	CDIDevices bool
	// Conditions are the runtime's conditions at the moment of Dial.
	Conditions []Condition
}

// Handler lists the abilities of a handler of the runtime.
type Handler struct {
	RecursiveReadOnlyMounts bool
	UserNamespaces          bool
}

// Condition is a condition of the runtime.
type Condition struct {
	Type            string // "RuntimeReady", "NetworkReady" or the runtime's own
	True            bool
	Reason, Message string
}

// NotReadyError means the runtime answers but cannot run containers, or cannot run pod networks.
type NotReadyError struct {
	// Conditions are the required conditions not reported as true.
	Conditions []Condition
}

func (e *NotReadyError) Error() string {
	var parts []string
	for _, c := range e.Conditions {
		parts = append(parts, fmt.Sprintf("%s is false: %s: %s", c.Type, c.Reason, c.Message))
	}
	return "the container runtime is not ready: " + strings.Join(parts, "; ")
}

func (i Info) clone() Info {
	i.Handlers = maps.Clone(i.Handlers)
	i.Conditions = slices.Clone(i.Conditions)
	return i
}

// Bounds of Dial's calls.
const (
	probeTimeout = 10 * time.Second
	// eventsTimeout is how long Dial waits for the refusal of a runtime without events; a runtime
	// with events stays silent. Dial asks only if the runtime's name and version do not decide.
	eventsTimeout = 200 * time.Millisecond
)

// probe asks the runtime for its version and abilities.
func (r *client) probe(ctx context.Context) (Info, error) {
	var info Info
	version, err := do(ctx, probeTimeout, "Version", r.cri.Version, &api.VersionRequest{Version: "v1"})
	if e, ok := errors.AsType[*CallError](err); ok && (e.Code == codes.Unimplemented || e.Code == codes.Internal) {
		return info, fmt.Errorf("the server of the socket speaks no CRI v1: %w", withoutKind(err))
	}
	if err != nil {
		return info, err
	}
	info = Info{Name: version.GetRuntimeName(), Version: version.GetRuntimeVersion(), APIVersion: version.GetRuntimeApiVersion()}
	if info.Name == "" || strings.ContainsAny(info.Name, ":/ ") {
		return info, fmt.Errorf("the server of the socket speaks no CRI v1: the name of its runtime is %q", info.Name)
	}
	answer, err := do(ctx, probeTimeout, "Status", r.cri.Status, &api.StatusRequest{})
	if err != nil {
		return info, err
	}
	addStatus(&info, answer)
	if bad := falseConditions(info.Conditions, api.RuntimeReady); bad != nil {
		return info, bad
	}
	config, err := do(ctx, probeTimeout, "RuntimeConfig", r.cri.RuntimeConfig, &api.RuntimeConfigRequest{})
	switch {
	case errors.Is(err, runtime.ErrUnsupported):
	case err != nil:
		return info, err
	case config.GetLinux() != nil:
		info.CgroupDriver = strings.ToLower(config.GetLinux().GetCgroupDriver().String())
	}
	info.ImageVolumes, info.ImageVolumeSubPaths = imageVolumes(info.Name, info.Version)
	info.CDIDevices = cdiDevices(info.Name, info.Version)
	info.Events, err = r.probeEvents(ctx, info)
	return info, err
}

// Ready implements Backend.
func (r *client) Ready(ctx context.Context) error {
	answer, err := do(ctx, callTimeout, "Status", r.cri.Status, &api.StatusRequest{})
	if err != nil {
		return err
	}
	var info Info
	addStatus(&info, answer)
	if bad := falseConditions(info.Conditions, api.RuntimeReady, api.NetworkReady); bad != nil {
		return bad
	}
	return nil
}

func addStatus(info *Info, answer *api.StatusResponse) {
	for _, c := range answer.GetStatus().GetConditions() {
		info.Conditions = append(info.Conditions, Condition{c.GetType(), c.GetStatus(), c.GetReason(), c.GetMessage()})
	}
	for _, h := range answer.GetRuntimeHandlers() {
		if info.Handlers == nil {
			info.Handlers = make(map[string]Handler)
		}
		info.Handlers[h.GetName()] = Handler{
			RecursiveReadOnlyMounts: h.GetFeatures().GetRecursiveReadOnlyMounts(),
			UserNamespaces:          h.GetFeatures().GetUserNamespaces(),
		}
	}
	info.UserNamespacesHostNetwork = answer.GetFeatures().GetUserNamespacesHostNetwork()
	info.SupplementalGroupsPolicy = answer.GetFeatures().GetSupplementalGroupsPolicy()
}

// falseConditions returns an error for the conditions of the given types not reported as true. A
// missing condition counts as false. The error is nil if all are true.
func falseConditions(have []Condition, types ...string) error {
	var bad []Condition
	for _, t := range types {
		i := slices.IndexFunc(have, func(c Condition) bool { return c.Type == t })
		switch {
		case i < 0:
			bad = append(bad, Condition{Type: t, Reason: "Unknown", Message: "the runtime does not report it"})
		case !have[i].True:
			bad = append(bad, have[i])
		}
	}
	if bad == nil {
		return nil
	}
	return &NotReadyError{Conditions: bad}
}

// probeEvents finds out whether GetContainerEvents is offered. Asking costs a moment, and
// containerd 1.7 delivers each event to one listener only, so the question takes an event away from
// another listener. The question is skipped if name and version decide.
func (r *client) probeEvents(ctx context.Context, info Info) (bool, error) {
	if info.Name == "containerd" {
		return !release(info.Version).before(2, 0), nil
	}
	limited, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	stream, err := r.cri.GetContainerEvents(limited, &api.GetEventsRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if ctx.Err() != nil {
		return false, fmt.Errorf("GetContainerEvents: %w", ctx.Err())
	}
	// Silence and an event are an offer. An earlier end of the stream (end of file, any error) is a
	// refusal. The runtime, too, may end the stream at the deadline.
	return err == nil || limited.Err() != nil && !errors.Is(err, io.EOF) || status.Code(err) == codes.DeadlineExceeded, nil
}

// imageVolumes derives from the runtime's version whether images, and parts of images, can be
// mounted. An older runtime would ignore the unknown field of the request.
func imageVolumes(name, version string) (whole, parts bool) {
	at := release(version)
	switch name {
	case "containerd":
		return !at.before(2, 1), !at.before(2, 2)
	case "cri-o":
		return !at.before(1, 31), !at.before(1, 33)
	default:
		return false, false
	}
}

// cdiDevices derives from the runtime's version whether CDI names are resolved by default. An older
// runtime ignores the field of the request.
func cdiDevices(name, version string) bool {
	switch name {
	case "containerd":
		return !release(version).before(2, 0)
	case "cri-o":
		return !release(version).before(1, 28)
	default:
		return false
	}
}

// version is the first two numbers of a version; -1 for a part without a number.
type version struct{ major, minor int }

// release reads "v2.4.2".
func release(text string) version {
	major, rest, _ := strings.Cut(strings.TrimPrefix(text, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			return -1
		}
		return n
	}
	return version{number(major), number(minor)}
}

func (v version) before(major, minor int) bool {
	return v.major < major || v.major == major && v.minor < minor
}
