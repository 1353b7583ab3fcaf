// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/volumemanager"
)

const (
	// gidAnnotation of a PersistentVolume is the owning group of its files.
	gidAnnotation = "pv.beta.kubernetes.io/gid"
	// protectionFinalizer delays the deletion of a claim while a pod uses the claim.
	protectionFinalizer = "kubernetes.io/pvc-protection"
)

// claimName returns the name of the claim behind a volume of a pod.
func claimName(pod *v1.Pod, volume *v1.Volume) (string, error) {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName, nil
	case volume.Ephemeral != nil:
		return pod.Name + "-" + volume.Name, nil
	}
	return "", errors.New("it has no claim")
}

// checkClaim returns the reason why a claim cannot be used for a volume of a pod. The conditions
// are the kubelet's (1.36).
func checkClaim(claim *v1.PersistentVolumeClaim, pod *v1.Pod, volume *v1.Volume) error {
	switch {
	case volume.Ephemeral != nil && !metav1.IsControlledBy(claim, pod):
		return fmt.Errorf("it was not created for pod %s/%s (pod is not owner)", pod.Namespace, pod.Name)
	case claim.DeletionTimestamp != nil && !slices.Contains(claim.Finalizers, protectionFinalizer):
		return errors.New("it is being deleted")
	case claim.Status.Phase != v1.ClaimBound:
		return fmt.Errorf("it is not bound: its phase is %q", claim.Status.Phase)
	case claim.Spec.VolumeName == "":
		return errors.New("it is bound, but has no spec.volumeName")
	}
	return nil
}

// checkVolume returns an error if pv is not the volume of the claim.
func checkVolume(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) error {
	switch ref := pv.Spec.ClaimRef; {
	case ref == nil:
		return errors.New("it is not bound: it has no spec.claimRef")
	case ref.UID != claim.UID:
		return fmt.Errorf("it is bound to another claim: %s/%s with UID %q instead of %q", ref.Namespace, ref.Name, ref.UID, claim.UID)
	}
	if have, want := modeOf(pv.Spec.VolumeMode), modeOf(claim.Spec.VolumeMode); have != want {
		return fmt.Errorf("its volumeMode is %s, and that of the claim is %s", have, want)
	}
	return nil
}

// modeOf returns the volume mode with its default.
func modeOf(m *v1.PersistentVolumeMode) v1.PersistentVolumeMode {
	if m == nil {
		return v1.PersistentVolumeFilesystem
	}
	return *m
}

func specOf(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume, volume *v1.Volume) volumemanager.Spec {
	return volumemanager.Spec{
		PV:       pv,
		ReadOnly: volume.PersistentVolumeClaim != nil && volume.PersistentVolumeClaim.ReadOnly,
		GID:      pv.Annotations[gidAnnotation],
		Size:     pv.Spec.Capacity[v1.ResourceStorage],
		Claimed:  claim.Status.Capacity[v1.ResourceStorage],
	}
}
