// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// ClaimVolume is the usage of the file system behind a PersistentVolumeClaim.
type ClaimVolume struct {
	Claim statsapi.PVCReference
	Usage statsapi.FsStats
}

// ClaimVolumes measures the mounted volumes of claims, each claim once. No folder is walked. A
// claim is left out if its volume is not a separate file system, or if the file system does not
// answer.
func (c *Collector) ClaimVolumes(ctx context.Context) (all []ClaimVolume) {
	seen := map[statsapi.PVCReference]bool{}
	for _, pod := range c.Pods() {
		names := c.folderNames(pod)
		for i := range pod.Spec.Volumes {
			claim := claimOf(pod, &pod.Spec.Volumes[i])
			if claim == nil || seen[*claim] || names[pod.Spec.Volumes[i].Name] == "" {
				continue
			}
			for _, plugin := range []string{pluginCSI, pluginLocal} {
				path := filepath.Join(c.Root, "pods", string(pod.UID), "volumes", plugin, names[pod.Spec.Volumes[i].Name])
				if !isFolder(path) {
					continue
				}
				if v, known := c.volume(ctx, nil, path, plugin); known {
					seen[*claim] = true
					all = append(all, ClaimVolume{*claim, *v.stats()})
				}
			}
		}
	}
	return all
}

// folderNames returns the names of the folders of the pod's volumes, by the names in the pod spec.
// Only a PersistentVolume has another name than in the pod spec.
func (c *Collector) folderNames(pod *v1.Pod) map[string]string {
	hasClaims := slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
	if c.VolumeFolders == nil || !hasClaims {
		return nil
	}
	return c.VolumeFolders(pod.UID)
}

// claimOf returns the claim of a volume, nil without a claim.
func claimOf(pod *v1.Pod, v *v1.Volume) *statsapi.PVCReference {
	switch {
	case v.PersistentVolumeClaim != nil:
		return &statsapi.PVCReference{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName}
	case v.Ephemeral != nil: // the name is a rule of the API
		return &statsapi.PVCReference{Namespace: pod.Namespace, Name: pod.Name + "-" + v.Name}
	}
	return nil
}

// answerTime is how long a file system may take to tell its capacity. That of a server that is away
// may take for ever.
const answerTime = 500 * time.Millisecond

// systemMeter measures file systems that may not answer. There is at most one goroutine per file
// system, which ends when the kernel answers.
type systemMeter struct {
	mu     sync.Mutex
	asking map[string]*asked
}

type asked struct {
	at       time.Time
	answered chan struct{}
	system   fileSystem // set before answered is closed
}

// system returns the file system of a folder, and false if it does not answer in time. A file system
// that has not answered an earlier call in time is not waited for.
func (m *systemMeter) system(ctx context.Context, folder string, read func(string) fileSystem) (fileSystem, bool) {
	m.mu.Lock()
	q := m.asking[folder]
	if q == nil {
		q = &asked{at: time.Now(), answered: make(chan struct{})}
		if m.asking == nil {
			m.asking = map[string]*asked{}
		}
		m.asking[folder] = q
		go func() {
			q.system = read(folder)
			m.mu.Lock()
			delete(m.asking, folder)
			m.mu.Unlock()
			close(q.answered)
		}()
	}
	m.mu.Unlock()
	select {
	case <-q.answered:
		return q.system, q.system.bytes > 0
	case <-time.After(time.Until(q.at.Add(answerTime))):
	case <-ctx.Done():
	}
	return fileSystem{}, false
}
