// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/images"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/shutdown"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/volumes"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// Options configure an Agent.
type Options struct {
	// NodeName is this node's name, a DNS-1123 subdomain. Required.
	NodeName string
	// Root is the absolute path of the folder for the files of pods, in Root/pods/<uid>. Only the
	// agent and the Runtime may write there. Required.
	Root string
	// RootLock is the lock on Root or on a folder above Root, if the caller has called LockRoot. The
	// caller unlocks it after Run. Agents of a process may share the lock on a folder above their
	// Roots. Defaults to a lock that Run takes and releases.
	RootLock *RootLock
	// Runtime runs the containers. Required.
	Runtime runtime.Runtime
	// Sources deliver the pods to run. At least one is required. A Source whose Run fails is run again:
	// see podconfig.Retry.
	Sources []podconfig.Source

	// Cluster connects the agent to an API server. Defaults to no API server.
	Cluster Cluster
	// Checkpoint is the absolute path of a file, in a folder used by this agent only. The file
	// stores the last pods of every source except podconfig.SourceFile, so that the node can run
	// them after a restart without a connection to the source. Defaults to no checkpoint.
	Checkpoint string
	// Objects provides the ConfigMaps and Secrets of pods. Call Agent.Refresh when an object has
	// changed. Defaults to none: pods with such volumes are refused.
	Objects volumes.Objects
	// Generator, if set, receives the agent's generator and returns the generator to use, such as a
	// wrapper that adds DNS, ContainerSpec.Devices or environment variables of the node. New calls
	// it once. Embed the given generator so that its optional interfaces (CheckPod,
	// NextRestartCount, RemoveLogs) stay available. Defaults to the agent's generator.
	Generator func(*runtime.DefaultGenerator) runtime.Generator
	// Hooks runs postStart and preStop handlers. Defaults to runtime.Options.Hooks.
	Hooks runtime.HookRunner
	// Keyring finds credentials for pulling images. It replaces the default: the pods'
	// imagePullSecrets, then RegistryAuthFile, then NodeKeyring.
	Keyring runtime.Keyring
	// RegistryAuthFile is the absolute path of a docker config.json with the node's own registry
	// credentials. The credentials are tried after the pods' imagePullSecrets. The file is read at
	// each pull and may be absent. Defaults to no file.
	RegistryAuthFile string
	// NodeKeyring finds further credentials of the node, such as those of credential plug-ins. They
	// are tried last. Defaults to none.
	NodeKeyring runtime.Keyring
	// PullRecords is runtime.Options.PullRecords.
	PullRecords runtime.PullRecords
	// ImageGC enables image garbage collection. Defaults to nil: images are never deleted.
	ImageGC *images.GC
	// VolumePlugins adds kinds of volumes to emptyDir, hostPath, configMap, secret, downwardAPI,
	// projected, local and image. Defaults to none.
	VolumePlugins []volumemanager.Plugin
	// Mounter mounts volumes. Defaults to mount.Detect().
	Mounter mount.Mounter
	// LogDir is the absolute path of the folder for container logs. Defaults to Root/logs.
	LogDir string
	// HostIPs are the node's addresses, primary first. Defaults to none.
	HostIPs []string
	// Allocatable is the sum of resources that pods may request; "pods" is the number of pods. It
	// also replaces a missing limit in resourceFieldRef. Cpu, memory, ephemeral-storage and pods
	// are unlimited if they are missing from the list; see package admission for other resources.
	// Defaults to the allocatable resources of Cluster.Node, and without a Node to unlimited.
	Allocatable v1.ResourceList
	// NodeLabels are labels of the node, in addition to hostname, operating system and
	// architecture. The labels of Cluster.Node are added. Defaults to none.
	NodeLabels map[string]string
	// NodeTaints are the node's taints until Cluster.Node has been read. Defaults to none.
	NodeTaints []v1.Taint
	// UnsafeSysctls are the names of sysctls that pods may set in addition to the safe sysctls. A
	// "*" at the end of a name matches any suffix. Defaults to none.
	UnsafeSysctls []string
	// Admit, if set, returns additional reasons to refuse a new pod. An empty result admits the
	// pod. Admit is not called for pods that ran before the agent began, nor for pods with fields
	// that the runtime cannot honour. It must not block. Defaults to nil.
	Admit func(pod *v1.Pod) []admission.Failure
	// OnShutdown selects between stopping and keeping the pods when Run's context ends. Defaults to
	// StopPods.
	OnShutdown ShutdownPolicy
	// ShutdownClasses makes StopPods stop the pods one priority class after another, each class
	// within its own time. Run then returns after the sum of these times at the latest, even if
	// containers still run. See shutdown.GracePeriods. Defaults to none: all pods stop at once,
	// each within its own grace period.
	ShutdownClasses []shutdown.Class
	// MachineStops, if set, is called with KeepPods when Run's context has ended. If it returns true,
	// the machine is about to stop, and Run stops the pods as with StopPods. MachineStops should
	// return within seconds. Defaults to nil: the pods are kept.
	MachineStops func() bool
	// StopTimeout limits the time that StopPods without ShutdownClasses waits for pods. Pods that
	// still run after the timeout are left running. Defaults to 0, no limit: if the runtime does
	// not answer, Run returns only when a supervisor kills the agent.
	StopTimeout time.Duration
	// Backoff is the crash-loop policy. Defaults to the kubelet's.
	Backoff runtime.Backoff
	// MaxConcurrentStarts limits concurrent container starts: see runtime.Options. Defaults to four
	// per core.
	MaxConcurrentStarts int
	// MaxConcurrentPulls limits concurrent pulls of images: see runtime.Options. Defaults to four.
	MaxConcurrentPulls int
	// Random returns a number in [0, 1). It spreads retries, resyncs and first probes of many nodes
	// and pods over time. Several goroutines call it. Defaults to package math/rand/v2. A
	// simulation passes a seeded source to be repeatable.
	Random func() float64
	// Status receives every change of a pod's status, in order for each pod. It must not block.
	// Defaults to nil.
	Status func(pod *v1.Pod, status v1.PodStatus)
	// ProbeHandler runs probe attempts. Defaults to the probes of the Kubernetes API (package
	// prober/handlers), with the runtime's Exec.
	ProbeHandler prober.Handler
	// Events records events about pods. Defaults to log lines.
	Events runtime.EventRecorder
	// Observer receives measurements of the parts. Defaults to none.
	Observer Observer
	// Features constructs features of the caller. New calls Features once. The node calls these
	// features after the features of this package. Defaults to no features.
	Features func(*feature.Host) []feature.Feature
	// Without lists the features to leave out, by the names of FeatureNames. Defaults to none.
	Without []string
	// Logger receives the agent's log. Defaults to none.
	Logger *zap.Logger
}

// ShutdownPolicy selects between stopping and keeping the pods when the agent ends.
type ShutdownPolicy uint8

const (
	// StopPods stops every pod, with its grace period, before Run returns.
	StopPods ShutdownPolicy = iota
	// KeepPods leaves the pods running for the next agent with the same Root and Runtime.
	KeepPods
)

// withDefaults returns o with defaults filled in. The error names the invalid field.
func (o Options) withDefaults() (Options, error) {
	if err := o.validate(); err != nil {
		return o, err
	}
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	if o.LogDir == "" {
		o.LogDir = filepath.Join(o.Root, "logs")
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Events == nil {
		o.Events = logEvents{o.Logger}
	}
	if o.Cluster.Events != nil {
		o.Events = feature.BothEvents{o.Events, o.Cluster.Events}
	}
	return o, nil
}

func (o Options) validate() error {
	switch {
	case o.NodeName == "":
		return errors.New("node: Options.NodeName is required")
	case len(validation.IsDNS1123Subdomain(o.NodeName)) > 0:
		return fmt.Errorf("node: Options.NodeName %q: %s", o.NodeName, validation.IsDNS1123Subdomain(o.NodeName)[0])
	case o.Root == "":
		return errors.New("node: Options.Root is required")
	case !filepath.IsAbs(o.Root):
		return fmt.Errorf("node: Options.Root %q: want an absolute path", o.Root)
	case o.RootLock != nil && !o.RootLock.covers(o.Root):
		return fmt.Errorf("node: Options.RootLock is that of %s, and Root is %s", o.RootLock.root, o.Root)
	case o.LogDir != "" && !filepath.IsAbs(o.LogDir):
		return fmt.Errorf("node: Options.LogDir %q: want an absolute path", o.LogDir)
	case o.Checkpoint != "" && !filepath.IsAbs(o.Checkpoint):
		return fmt.Errorf("node: Options.Checkpoint %q: want an absolute path", o.Checkpoint)
	case o.RegistryAuthFile != "" && !filepath.IsAbs(o.RegistryAuthFile):
		return fmt.Errorf("node: Options.RegistryAuthFile %q: want an absolute path", o.RegistryAuthFile)
	case o.Cluster.Mirrors != nil && o.Cluster.Node == nil:
		return errors.New("node: Options.Cluster.Node is required with Mirrors")
	case o.Runtime == nil:
		return errors.New("node: Options.Runtime is required")
	case len(o.Sources) == 0:
		return errors.New("node: Options.Sources: at least one is required")
	case o.OnShutdown > KeepPods:
		return fmt.Errorf("node: Options.OnShutdown %d is unknown", o.OnShutdown)
	case shutdown.Validate(o.ShutdownClasses) != nil:
		return fmt.Errorf("node: Options.ShutdownClasses: %w", shutdown.Validate(o.ShutdownClasses))
	case len(o.ShutdownClasses) > 0 && o.OnShutdown != StopPods && o.MachineStops == nil:
		return errors.New("node: Options.ShutdownClasses are for StopPods or MachineStops")
	case o.MachineStops != nil && o.OnShutdown != KeepPods:
		return errors.New("node: Options.MachineStops is for KeepPods")
	case o.StopTimeout < 0:
		return fmt.Errorf("node: Options.StopTimeout is %s: want 0 or more", o.StopTimeout)
	case slices.ContainsFunc(o.Without, func(name string) bool { return !slices.Contains(FeatureNames(), name) }):
		return fmt.Errorf("node: Options.Without is %q: want some of %q", o.Without, FeatureNames())
	}
	return nil
}
