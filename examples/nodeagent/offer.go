// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus/host"
	"github.com/keelson-dev/keelson/internal/podresources"
)

// offer holds the flags for admission: labels, taints, resources and sysctls of this node. Names
// are those of the kubelet.
type offer struct {
	labels         map[string]string
	taintTexts     []string
	maxPods        int
	podsPerCore    int
	systemReserved map[string]string
	kubeReserved   map[string]string
	unsafeSysctls  []string

	taints      []v1.Taint      // this and the following fields are set by complete
	capacity    v1.ResourceList // resources of the machine, "pods" only if limited
	allocatable v1.ResourceList // capacity without reserved resources

	machine          v1.ResourceList // cpu, memory, process IDs and huge pages of the machine
	enforced         v1.ResourceList // machine without what is reserved for the system and the agent
	ofSystem, ofKube v1.ResourceList // reserved
}

// defaultMaxPods is the default of --max-pods on a node of a cluster.
const defaultMaxPods = 110

func (o *offer) flags(set *pflag.FlagSet) {
	set.StringToStringVar(&o.labels, "node-labels", nil, "labels of this node, as `key=value,...`, for node selectors and affinities of pods")
	set.StringSliceVar(&o.taintTexts, "register-with-taints", nil, "taints of this node, as `key=value:effect,...`")
	set.IntVar(&o.maxPods, "max-pods", 0, fmt.Sprintf("how many pods may run at the same time; 0 = any number (default %d with --kubeconfig)", defaultMaxPods))
	set.IntVar(&o.podsPerCore, "pods-per-core", 0, "how many pods may run for each core of the machine; --max-pods holds, too; 0 = no such limit")
	set.StringToStringVar(&o.systemReserved, "system-reserved", nil, "resources that are reserved for the system, as `resource=quantity,...`: cpu=200m,memory=500Mi,ephemeral-storage=1Gi")
	set.StringToStringVar(&o.kubeReserved, "kube-reserved", nil, "resources that are reserved for this agent and the container runtime, as `resource=quantity,...`")
	set.StringSliceVar(&o.unsafeSysctls, "allowed-unsafe-sysctls", nil, "unsafe sysctls that pods may set, as `name,...`; a * at the end of a name matches every ending")
}

// complete parses the flags and computes taints, capacity and allocatable.
func (o *offer) complete(f *flags, set *pflag.FlagSet) error {
	for key, value := range o.labels {
		if wrong := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)); len(wrong) > 0 {
			return fmt.Errorf("--node-labels %s=%s: %s", key, value, wrong[0])
		}
	}
	for _, text := range o.taintTexts {
		taint, err := parseTaint(text)
		if err != nil {
			return fmt.Errorf("--register-with-taints: %w", err)
		}
		o.taints = append(o.taints, taint)
	}
	if o.maxPods < 0 || o.podsPerCore < 0 {
		return fmt.Errorf("--max-pods %d, --pods-per-core %d: want 0 or more", o.maxPods, o.podsPerCore)
	}
	if f.kubeconfig != "" && !set.Changed("max-pods") {
		o.maxPods = defaultMaxPods
	}
	if perCore := o.podsPerCore * goruntime.NumCPU(); perCore > 0 && (o.maxPods == 0 || perCore < o.maxPods) {
		o.maxPods = perCore
	}
	var err error
	if o.ofSystem, err = parseReserved(o.systemReserved); err != nil {
		return fmt.Errorf("--system-reserved: %w", err)
	}
	if o.ofKube, err = parseReserved(o.kubeReserved); err != nil {
		return fmt.Errorf("--kube-reserved: %w", err)
	}
	reserved := o.ofSystem.DeepCopy()
	podresources.Add(reserved, o.ofKube)
	memory, _ := host.Machine{}.Memory()
	disk, _, _, _ := host.Disk(existing(f.root))
	o.capacity = capacity(goruntime.NumCPU(), memory, disk, o.maxPods)
	if err := o.limit(memory, reserved); err != nil {
		return err
	}
	if pages := (host.Machine{}).HugePages(); f.endpoint != processEndpoint { // which gives processes none
		addHugePages(o.capacity, pages, reserved)
	}
	podresources.Add(reserved, f.eviction.withheld(o.capacity))
	o.allocatable, err = without(o.capacity, reserved)
	return err
}

// limit computes the resources that cgroups enforce.
func (o *offer) limit(memory int64, reserved v1.ResourceList) (err error) {
	o.machine = capacity(goruntime.NumCPU(), memory, 0, 0)
	if most, _ := (host.Machine{}).ProcessIDs(); most > 0 {
		o.machine["pid"] = *resource.NewQuantity(most, resource.DecimalSI)
	}
	maps.Copy(o.machine, host.Machine{}.HugePages())
	o.enforced, err = without(o.machine, reserved)
	return err
}

// addHugePages adds the huge pages to the capacity, and their memory to the reserved resources: this
// memory can be used only as huge pages.
func addHugePages(capacity, pages, reserved v1.ResourceList) {
	memory := reserved[v1.ResourceMemory]
	for name, amount := range pages {
		capacity[name] = amount
		memory.Add(amount)
	}
	if memory.Sign() > 0 {
		reserved[v1.ResourceMemory] = memory
	}
}

// existing returns the folder, or its closest parent that exists.
func existing(folder string) string {
	for folder != filepath.Dir(folder) {
		if _, err := os.Stat(folder); err == nil {
			break
		}
		folder = filepath.Dir(folder)
	}
	return folder
}

// apply sets the node's Options.
func (o *offer) apply(opts *node.Options) {
	opts.Allocatable, opts.NodeLabels, opts.NodeTaints, opts.UnsafeSysctls = o.allocatable, o.labels, o.taints, o.unsafeSysctls
}

// capacity returns the machine's resources. An amount of 0 bytes or pods is unknown and left out.
func capacity(cores int, memory, disk int64, pods int) v1.ResourceList {
	list := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(cores), resource.DecimalSI)}
	for name, bytes := range map[v1.ResourceName]int64{v1.ResourceMemory: memory, v1.ResourceEphemeralStorage: disk} {
		if bytes > 0 {
			list[name] = *resource.NewQuantity(bytes, resource.BinarySI)
		}
	}
	if pods > 0 {
		list[v1.ResourcePods] = *resource.NewQuantity(int64(pods), resource.DecimalSI)
	}
	return list
}

// parseReserved returns the resources of a flag.
func parseReserved(list map[string]string) (v1.ResourceList, error) {
	reserved := v1.ResourceList{}
	for key, text := range list {
		name := v1.ResourceName(key)
		switch name {
		case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, "pid":
		default:
			return nil, fmt.Errorf("%q: want cpu, memory, ephemeral-storage or pid", key)
		}
		amount, err := resource.ParseQuantity(text)
		if err != nil || amount.Sign() < 0 {
			return nil, fmt.Errorf("%s=%s: want a quantity, such as 200m or 500Mi", key, text)
		}
		reserved[name] = amount
	}
	return reserved, nil
}

// without returns have minus reserved.
func without(have, reserved v1.ResourceList) (v1.ResourceList, error) {
	left := have.DeepCopy()
	for name, amount := range reserved {
		rest, known := left[name]
		if !known {
			continue
		}
		rest.Sub(amount)
		if rest.Sign() < 0 {
			all := have[name]
			return nil, fmt.Errorf("--system-reserved, --kube-reserved and --eviction-hard keep %s of %s, and this machine has %s", amount.String(), name, all.String())
		}
		left[name] = rest
	}
	return left, nil
}

// parseTaint parses key=value:effect or key:effect.
func parseTaint(text string) (v1.Taint, error) {
	rest, effect, ok := strings.Cut(text, ":")
	key, value, _ := strings.Cut(rest, "=")
	taint := v1.Taint{Key: key, Value: value, Effect: v1.TaintEffect(effect)}
	effects := []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute}
	switch wrong := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)); {
	case !ok || !slices.Contains(effects, taint.Effect):
		return taint, fmt.Errorf("%q: want key=value:effect, the effect being NoSchedule, PreferNoSchedule or NoExecute", text)
	case len(wrong) > 0:
		return taint, fmt.Errorf("%q: %s", text, wrong[0])
	}
	return taint, nil
}
