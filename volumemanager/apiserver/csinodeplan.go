// SPDX-License-Identifier: Apache-2.0

package apiserver

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

// DriverInfo is what a CSI driver says of itself on a node (NodeGetInfo).
type DriverInfo struct {
	// NodeID is what the driver calls the node. Not empty.
	NodeID string
	// MaxVolumes is how many volumes may be attached; 0 or less: no limit.
	MaxVolumes int64
	// Topology is from where on the node's volumes may be: labels of the node.
	Topology map[string]string
}

// driverEntry is the entry of a CSINode object for a driver.
func driverEntry(driver string, info DriverInfo) storagev1.CSINodeDriver {
	entry := storagev1.CSINodeDriver{Name: driver, NodeID: info.NodeID, TopologyKeys: slices.Sorted(maps.Keys(info.Topology))}
	if info.MaxVolumes > 0 {
		entry.Allocatable = &storagev1.VolumeNodeResources{Count: new(int32(min(info.MaxVolumes, math.MaxInt32)))}
	}
	return entry
}

// driverEntries are those of all drivers, by name: of the silent ones, that have not been heard of for too short a time to
// be gone, those that are there.
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

// sameEntries reports whether two lists say the same.
func sameEntries(a, b []storagev1.CSINodeDriver) bool {
	return slices.EqualFunc(slices.SortedFunc(slices.Values(a), byName), slices.SortedFunc(slices.Values(b), byName), sameEntry)
}

func sameEntry(a, b storagev1.CSINodeDriver) bool {
	return a.Name == b.Name && a.NodeID == b.NodeID && reflect.DeepEqual(a.Allocatable, b.Allocatable) &&
		slices.Equal(slices.Sorted(slices.Values(a.TopologyKeys)), slices.Sorted(slices.Values(b.TopologyKeys)))
}

// unchanged is next without the entries that are otherwise now: the API server lets an entry be taken away and be added, and
// none be changed (1.36: but for its count).
func unchanged(now, next []storagev1.CSINodeDriver) []storagev1.CSINodeDriver {
	return slices.DeleteFunc(slices.Clone(next), func(e storagev1.CSINodeDriver) bool {
		return slices.ContainsFunc(now, func(old storagev1.CSINodeDriver) bool { return old.Name == e.Name && !sameEntry(old, e) })
	})
}

// owns reports whether an object is of this node, and not of one of the same name before it.
func owns(node *v1.Node, object *storagev1.CSINode) bool {
	return slices.ContainsFunc(object.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.Kind == "Node" && r.Name == node.Name && r.UID == node.UID
	})
}

// agreeing are the drivers that contradict neither the node's labels nor each other, and the labels that the node does not
// have yet. The error names those left out: as in the kubelet they are not told of, for their volumes would be made where
// the node cannot reach them.
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

// clash is the first label that is another than the topology says, or "".
func clash(labels, topology map[string]string) string {
	for _, key := range slices.Sorted(maps.Keys(topology)) {
		if value, there := labels[key]; there && value != topology[key] {
			return key
		}
	}
	return ""
}

func byName(a, b storagev1.CSINodeDriver) int { return strings.Compare(a.Name, b.Name) }
