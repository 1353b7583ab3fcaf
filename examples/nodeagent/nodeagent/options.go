// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeagent/admission"
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
	// Root is the absolute path of the folder for what pods leave on disk, in
	// Root/pods/<uid>. Nobody else but the Runtime may write there. Required.
	Root string
	// Runtime runs the containers. Required.
	Runtime runtime.Runtime
	// Sources say which pods should run. At least one is required.
	Sources []podconfig.Source

	// Cluster is what the agent tells an API server. Defaults to nothing.
	Cluster Cluster
	// Checkpoint is the absolute path of a file, in a folder of the agent's own,
	// that keeps what sources other than podconfig.SourceFile last said, so that
	// the node runs it when it starts without them. Defaults to none.
	Checkpoint string
	// Objects are the ConfigMaps and Secrets that pods may use. Call Refresh when
	// one has changed. Defaults to none.
	Objects Objects
	// Generator, if set, is given the generator of the agent and returns the one to
	// use: one that adds DNS, devices or variables of the node's own. It is called
	// by New. A wrapper that embeds what it is given keeps what that can do beside
	// runtime.Generator. Defaults to that one as it is.
	Generator func(*runtime.DefaultGenerator) runtime.Generator
	// Hooks runs postStart and preStop handlers. Defaults to runtime.NewHooks's.
	Hooks runtime.HookRunner
	// Keyring finds credentials for pulling images. Defaults to pods'
	// imagePullSecrets and RegistryAuthFile, which it takes the place of.
	Keyring runtime.Keyring
	// RegistryAuthFile is the absolute path of a docker config.json with the node's
	// own credentials for registries. Pods' imagePullSecrets are tried before. It is
	// read at each pull; if it is not there the node has none. Defaults to none.
	RegistryAuthFile string
	// ImageGC has images collected. Defaults to none: they stay.
	ImageGC *ImageGC
	// VolumePlugins are kinds of volume beside emptyDir, hostPath, configMap,
	// secret, downwardAPI, projected, local and image. Defaults to none.
	VolumePlugins []volumemanager.Plugin
	// Mounter mounts volumes. Defaults to mount.Detect().
	Mounter mount.Mounter
	// LogDir is the absolute path of the folder for the containers' logs. Defaults
	// to Root/logs.
	LogDir string
	// HostIPs are the node's addresses, primary first. Defaults to none.
	HostIPs []string
	// Allocatable is what pods may ask for together, "pods" being their number, and
	// what resourceFieldRef means without a limit. Of cpu, memory, ephemeral-storage
	// and pods there is no end where it does not say; see package admission.
	// Defaults to what Cluster.Node says, else to unknown, which limits nothing.
	Allocatable v1.ResourceList
	// NodeLabels are the node's, besides its name, operating system and
	// architecture; those of Cluster.Node are added. Defaults to none.
	NodeLabels map[string]string
	// NodeTaints are the node's until Cluster.Node says which they are. Defaults to
	// none.
	NodeTaints []v1.Taint
	// UnsafeSysctls are names of sysctls that pods may set besides the safe ones; a
	// "*" at the end stands for anything. Defaults to none.
	UnsafeSysctls []string
	// Admit, if set, returns what else stands in the way of a pod that comes; nothing:
	// it is admitted. It is not asked about pods that ran before, nor about those that
	// the runtime cannot run, and it must not block. Defaults to nothing.
	Admit func(pod *v1.Pod) []admission.Failure
	// OnShutdown says what becomes of the pods when Run's context ends.
	// Defaults to StopPods.
	OnShutdown ShutdownPolicy
	// ShutdownClasses have StopPods stop the pods one class after another, each in
	// its time, and Run return when the time of all is over, whatever still runs
	// then. See ShutdownGracePeriods. Defaults to none: all pods stop at once, each
	// within its own grace period, however long.
	ShutdownClasses []ShutdownClass
	// StopTimeout is how long StopPods without ShutdownClasses waits for pods to
	// end; what runs then runs on. Without a limit an agent whose runtime does not
	// answer does not end. Defaults to 0, none: whoever supervises the agent has one.
	StopTimeout time.Duration
	// Backoff is the crash-loop policy. Defaults to the kubelet's.
	Backoff runtime.Backoff
	// MaxConcurrentStarts: see runtime.Options. Defaults to four per core.
	MaxConcurrentStarts int
	// HousekeepingInterval is how often to look for leftovers when nothing
	// asked for it earlier. Defaults to 30 s.
	HousekeepingInterval time.Duration
	// Random is in [0, 1) and spreads what many nodes, or many pods of one, would do at
	// the same time: retries, resyncs, first probes. It is called by several goroutines.
	// Defaults to package math/rand/v2; a simulation that can be repeated has its own.
	Random func() float64
	// Status is told every change of a pod's status, in order per pod. It must
	// not block. Defaults to nobody.
	Status func(pod *v1.Pod, status v1.PodStatus)
	// ProbeHandler makes the attempts of probes. Defaults to those of the
	// Kubernetes API (package prober/handlers), with the runtime's Exec.
	ProbeHandler prober.Handler
	// Events receives events about pods. Defaults to the log.
	Events runtime.EventRecorder
	// Observer is told what the parts did. Defaults to nobody.
	Observer Observer
	// Logger receives the agent's log. Defaults to none.
	Logger *zap.Logger
}

// ShutdownPolicy says what becomes of the pods when the agent ends.
type ShutdownPolicy uint8

const (
	// StopPods stops every pod, with its grace period, before Run returns.
	StopPods ShutdownPolicy = iota
	// KeepPods leaves them to the next agent on the same Root and Runtime.
	KeepPods
)

func (o Options) validate() error {
	switch {
	case o.NodeName == "":
		return errors.New("nodeagent: Options.NodeName is required")
	case len(validation.IsDNS1123Subdomain(o.NodeName)) > 0:
		return fmt.Errorf("nodeagent: Options.NodeName %q: %s", o.NodeName, validation.IsDNS1123Subdomain(o.NodeName)[0])
	case o.Root == "":
		return errors.New("nodeagent: Options.Root is required")
	case !filepath.IsAbs(o.Root):
		return fmt.Errorf("nodeagent: Options.Root %q: want an absolute path", o.Root)
	case o.LogDir != "" && !filepath.IsAbs(o.LogDir):
		return fmt.Errorf("nodeagent: Options.LogDir %q: want an absolute path", o.LogDir)
	case o.Checkpoint != "" && !filepath.IsAbs(o.Checkpoint):
		return fmt.Errorf("nodeagent: Options.Checkpoint %q: want an absolute path", o.Checkpoint)
	case o.RegistryAuthFile != "" && !filepath.IsAbs(o.RegistryAuthFile):
		return fmt.Errorf("nodeagent: Options.RegistryAuthFile %q: want an absolute path", o.RegistryAuthFile)
	case o.Cluster.Mirrors != nil && o.Cluster.Node == nil:
		return errors.New("nodeagent: Options.Cluster.Node is required with Mirrors")
	case o.Runtime == nil:
		return errors.New("nodeagent: Options.Runtime is required")
	case len(o.Sources) == 0:
		return errors.New("nodeagent: Options.Sources: at least one is required")
	case o.OnShutdown > KeepPods:
		return fmt.Errorf("nodeagent: Options.OnShutdown %d is unknown", o.OnShutdown)
	case validateClasses(o.ShutdownClasses) != nil:
		return fmt.Errorf("nodeagent: Options.ShutdownClasses: %w", validateClasses(o.ShutdownClasses))
	case len(o.ShutdownClasses) > 0 && o.OnShutdown != StopPods:
		return errors.New("nodeagent: Options.ShutdownClasses are for StopPods")
	case o.StopTimeout < 0:
		return fmt.Errorf("nodeagent: Options.StopTimeout is %s: want 0 or more", o.StopTimeout)
	case o.HousekeepingInterval < 0:
		return fmt.Errorf("nodeagent: Options.HousekeepingInterval is %s: want 0 or more", o.HousekeepingInterval)
	}
	return nil
}
