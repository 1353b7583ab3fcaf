// SPDX-License-Identifier: Apache-2.0

package cri_test

import (
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime/cri"
)

// idsPerPod is the length of a pod's range of user and group IDs, the kubelet's.
const idsPerPod = 1 << 16

// slots gives each pod one of a fixed number of places. A program keeps the places in a file, so
// that a pod that runs has the same place under the next agent.
type slots struct {
	mu    sync.Mutex
	taken []types.UID
}

func (s *slots) of(pod *v1.Pod) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := -1
	for i, uid := range s.taken {
		switch {
		case uid == pod.UID:
			return i, nil
		case uid == "" && free < 0:
			free = i
		}
	}
	if free < 0 {
		return 0, errors.New("the node has no IDs left")
	}
	s.taken[free] = pod.UID
	return free, nil
}

// Pods with "hostUsers: false" get IDs of their own, and every pod runs in a cgroup that the agent
// has made for it and can limit.
func Example_podsOfTheirOwn() {
	places := &slots{taken: make([]types.UID, 100)}
	opts := cri.Options{
		Root:         "/var/lib/kubelet",
		CgroupParent: func(pod *v1.Pod) string { return "/gateway/pod" + string(pod.UID) },
		UserNamespaces: func(pod *v1.Pod) (cri.IDMapping, error) {
			place, err := places.of(pod)
			first := uint32(place+1) * idsPerPod
			return cri.IDMapping{HostUID: first, HostGID: first, Length: idsPerPod}, err
		},
	}
	for _, uid := range []types.UID{"a", "b", "a"} { // the backend asks whenever it makes a sandbox or container
		pod := &v1.Pod{}
		pod.UID = uid
		ids, err := opts.UserNamespaces(pod)
		fmt.Println(opts.CgroupParent(pod), ids.HostUID, err)
	}
	// Output:
	// /gateway/poda 65536 <nil>
	// /gateway/podb 131072 <nil>
	// /gateway/poda 65536 <nil>
}
