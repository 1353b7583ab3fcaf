// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DriverInfo is the answer of a CSI driver about its node (NodeGetInfo).
type DriverInfo struct {
	// NodeID is the driver's ID of the node. Not empty.
	NodeID string
	// MaxVolumes is the largest number of attached volumes; 0 or less: no limit.
	MaxVolumes int64
	// Topology are node labels: volumes with this topology are accessible from the node.
	Topology map[string]string
}

// driverEntry returns the entry of a CSINode object for a driver.
func driverEntry(driver string, info DriverInfo) storagev1.CSINodeDriver {
	entry := storagev1.CSINodeDriver{Name: driver, NodeID: info.NodeID, TopologyKeys: slices.Sorted(maps.Keys(info.Topology))}
	if info.MaxVolumes > 0 {
		entry.Allocatable = &storagev1.VolumeNodeResources{Count: new(int32(min(info.MaxVolumes, math.MaxInt32)))}
	}
	return entry
}

// driverEntries returns the entries of all drivers, sorted by name. A silent driver, not yet
// considered gone, keeps its entry from there.
func driverEntries(infos map[string]DriverInfo, silent []string, there []storagev1.CSINodeDriver) []storagev1.CSINodeDriver {
	entries := make([]storagev1.CSINodeDriver, 0, len(infos))
	for _, driver := range slices.Sorted(maps.Keys(infos)) {
		entries = append(entries, driverEntry(driver, infos[driver]))
	}
	for _, e := range there {
		if slices.Contains(silent, e.Name) {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, byName)
	return entries
}

// sameEntries reports whether two lists have the same entries, in any order.
func sameEntries(a, b []storagev1.CSINodeDriver) bool {
	return slices.EqualFunc(slices.SortedFunc(slices.Values(a), byName), slices.SortedFunc(slices.Values(b), byName), sameEntry)
}

func sameEntry(a, b storagev1.CSINodeDriver) bool {
	return a.Name == b.Name && a.NodeID == b.NodeID && reflect.DeepEqual(a.Allocatable, b.Allocatable) &&
		slices.Equal(slices.Sorted(slices.Values(a.TopologyKeys)), slices.Sorted(slices.Values(b.TopologyKeys)))
}

// unchanged returns next without the entries that differ from their entry in now. The API server
// permits adding and removing an entry, but no change of an entry (1.36: except its count).
func unchanged(now, next []storagev1.CSINodeDriver) []storagev1.CSINodeDriver {
	return slices.DeleteFunc(slices.Clone(next), func(e storagev1.CSINodeDriver) bool {
		return slices.ContainsFunc(now, func(old storagev1.CSINodeDriver) bool { return old.Name == e.Name && !sameEntry(old, e) })
	})
}

// owns reports whether the object belongs to this node, and not to an earlier node of the same
// name.
func owns(node *v1.Node, object *storagev1.CSINode) bool {
	return slices.ContainsFunc(object.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.Kind == "Node" && r.Name == node.Name && r.UID == node.UID
	})
}

// agreeing returns the drivers that contradict neither the node's labels nor each other, and the
// labels missing on the node. The error names the other drivers. As in the kubelet they are left
// out, because the node could not reach their volumes.
func agreeing(node *v1.Node, infos map[string]DriverInfo) (map[string]DriverInfo, map[string]string, error) {
	labels, agree := maps.Clone(node.Labels), make(map[string]DriverInfo, len(infos))
	if labels == nil {
		labels = make(map[string]string)
	}
	var clashes []error
	for _, driver := range slices.Sorted(maps.Keys(infos)) {
		if key := clash(labels, infos[driver].Topology); key != "" {
			clashes = append(clashes, fmt.Errorf("driver %s says %s=%s, and the node is labelled %s=%s",
				driver, key, infos[driver].Topology[key], key, labels[key]))
			continue
		}
		agree[driver] = infos[driver]
		maps.Copy(labels, infos[driver].Topology)
	}
	maps.DeleteFunc(labels, func(key, _ string) bool { _, there := node.Labels[key]; return there })
	return agree, labels, errors.Join(clashes...)
}

// clash returns the first label key whose value differs from the topology, or "".
func clash(labels, topology map[string]string) string {
	for _, key := range slices.Sorted(maps.Keys(topology)) {
		if value, there := labels[key]; there && value != topology[key] {
			return key
		}
	}
	return ""
}

func byName(a, b storagev1.CSINodeDriver) int { return strings.Compare(a.Name, b.Name) }
