// SPDX-License-Identifier: Apache-2.0

package fwk

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kube-scheduler/framework"
)

// missing returns the error of an object that a simulation does not have.
func missing(kind, name string) error { return fmt.Errorf("%w: %s %q", ErrNotSimulated, kind, name) }

// noClaims implements framework.SharedDRAManager and its trackers without objects.
type noClaims struct{}

func (noClaims) ResourceClaims() framework.ResourceClaimTracker                  { return noClaims{} }
func (noClaims) ResourceSlices() framework.ResourceSliceLister                   { return noClaims{} }
func (noClaims) DeviceClasses() framework.DeviceClassLister                      { return noDeviceClasses{} }
func (noClaims) DeviceClassResolver() framework.DeviceClassResolver              { return noDeviceClasses{} }
func (noClaims) List() ([]*resourceapi.ResourceClaim, error)                     { return nil, nil }
func (noClaims) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) { return nil, nil }
func (noClaims) Get(_, name string) (*resourceapi.ResourceClaim, error) {
	return nil, missing("resource claim", name)
}
func (noClaims) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	return sets.New[structured.DeviceID](), nil
}
func (noClaims) GatherAllocatedState() (*structured.AllocatedState, error) {
	return &structured.AllocatedState{}, nil
}
func (noClaims) SignalClaimPendingAllocation(_ types.UID, claim *resourceapi.ResourceClaim) error {
	return missing("resource claim", claim.Name)
}
func (noClaims) GetPendingAllocation(types.UID) *resourceapi.AllocationResult { return nil }
func (noClaims) MaybeRemoveClaimPendingAllocation(types.UID, bool) bool       { return false }
func (noClaims) AssumeClaimAfterAPICall(claim *resourceapi.ResourceClaim) error {
	return missing("resource claim", claim.Name)
}
func (noClaims) AssumedClaimRestore(string, string) {}

// noDeviceClasses implements framework.DeviceClassLister and framework.DeviceClassResolver.
type noDeviceClasses struct{}

func (noDeviceClasses) List() ([]*resourceapi.DeviceClass, error) { return nil, nil }
func (noDeviceClasses) Get(name string) (*resourceapi.DeviceClass, error) {
	return nil, missing("device class", name)
}
func (noDeviceClasses) GetDeviceClass(v1.ResourceName) *resourceapi.DeviceClass { return nil }

// noCSI implements framework.CSIManager and framework.CSINodeLister.
type noCSI struct{}

func (noCSI) CSINodes() framework.CSINodeLister           { return noCSI{} }
func (noCSI) List() ([]*storagev1.CSINode, error)         { return nil, nil }
func (noCSI) Get(name string) (*storagev1.CSINode, error) { return nil, missing("CSI node", name) }

// noGroups implements framework.PodGroupManager without pod groups.
type noGroups struct{}

func (noGroups) PodGroupStates() framework.PodGroupStateLister { return noGroupStates{} }
func (noGroups) PodGroups() framework.PodGroupLister           { return noPodGroups{} }
func (noGroups) CompositePodGroupStates() framework.CompositePodGroupStateLister {
	return noCompositeStates{}
}
func (noGroups) CompositePodGroups() framework.CompositePodGroupLister { return noComposites{} }
func (noGroups) BuildHierarchySnapshotFromPod(p *v1.Pod) (framework.PodGroupManager, error) {
	return nil, missing("the pod group of pod", p.Name)
}
func (noGroups) GetRootKeyForGroup(framework.EntityKey) (key framework.EntityKey, found bool, err error) {
	return key, false, nil
}

type (
	noGroupStates     struct{}
	noPodGroups       struct{}
	noCompositeStates struct{}
	noComposites      struct{}
)

func (noGroupStates) Get(_, name string) (framework.PodGroupState, error) {
	return nil, missing("pod group", name)
}
func (noPodGroups) Get(_, name string) (*schedulingv1beta1.PodGroup, error) {
	return nil, missing("pod group", name)
}
func (noCompositeStates) Get(_, name string) (framework.CompositePodGroupState, error) {
	return nil, missing("composite pod group", name)
}
func (noComposites) Get(_, name string) (*schedulingv1alpha3.CompositePodGroup, error) {
	return nil, missing("composite pod group", name)
}
