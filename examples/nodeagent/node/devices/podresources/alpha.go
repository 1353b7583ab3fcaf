// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	"context"

	"k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
)

// alpha is the API of version v1alpha1, which the kubelet (1.36) serves on the same socket: a List of
// the regular containers with their devices, without topology.
type alpha struct {
	v1alpha1.UnimplementedPodResourcesListerServer
	server *Server
}

// List implements the API.
func (a *alpha) List(context.Context, *v1alpha1.ListPodResourcesRequest) (*v1alpha1.ListPodResourcesResponse, error) {
	answer := &v1alpha1.ListPodResourcesResponse{}
	for _, pod := range a.server.opts.Pods() {
		devices := map[string][]*v1alpha1.ContainerDevices{}
		for _, h := range a.server.opts.Devices.Of(pod.UID) {
			for _, d := range h.Devices {
				devices[h.Container] = append(devices[h.Container], &v1alpha1.ContainerDevices{ResourceName: h.Resource, DeviceIds: []string{d.ID}})
			}
		}
		resources := &v1alpha1.PodResources{Name: pod.Name, Namespace: pod.Namespace}
		for i := range pod.Spec.Containers {
			name := pod.Spec.Containers[i].Name
			resources.Containers = append(resources.Containers, &v1alpha1.ContainerResources{Name: name, Devices: devices[name]})
		}
		answer.PodResources = append(answer.PodResources, resources)
	}
	return answer, nil
}
