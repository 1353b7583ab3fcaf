// SPDX-License-Identifier: Apache-2.0

// Package updates replaces pods by newer versions in transactions. The images of the next version
// are fetched before the running version is stopped. Then the next version has to pass a gate. If
// it fails, the last good version is started again.
//
//	u, err := updates.New(updates.Options{Default: updates.Transactional})
//	if err != nil {
//		return err
//	}
//	agent, err := node.New(node.Options{
//		Sources:  u.Sources(folder, bus), // in the place of folder, bus
//		Features: u.Features,
//		...
//	})
//
// Without Options.Default, only pods with the annotation "keelson.dev/update: Transactional" change
// in transactions, and all other pods are replaced as by the kubelet. docs/updates.md is for users.
//
// # The caller's duties
//
//  1. Pass all sources of static pods to Sources, and both results to node.New. Each source runs in
//     a single node.
//  2. Call Problem for manifests that cannot be read, if the source can tell (podconfig/file can).
//     Then a manifest that is faulty at the start of the agent does not remove its pod.
//  3. Call Poke after another program has called Rollback.
//  4. Set node.Options.OnShutdown to KeepPods if the pods run on after the end of the agent.
//
// # The states of a unit
//
// A unit is a pod, or the pods with the same AnnotationGroup. The version of a unit is a hash of
// the names, labels, annotations and specs of its pods. UIDs and resource versions are not part of
// the hash.
//
//	           another version is listed        all images are present      no hold
//	Steady ─────────────────────────────► Staging ──────────────────► Staged ──────► Proving
//	 ▲ ▲ ▲      (and it is not bad)          │ refused by the node                    │    │
//	 │ │ └───────────────────────────────────┘                          gate passed   │    │ gate failed, deadline,
//	 │ └──────────────────────────────────────────────────────────────────────────────┘    │ boot, manifest reverted
//	 │   gate passed                                                                       ▼
//	 └──────────────────────────────────────────────────────────────────────────── RollingBack
//	 └─ gate passed ─ Degraded ◄── the gate of the good version fails, too ─────────────┘
//
// The first version of a unit has no predecessor: it begins in Proving, and is Degraded if it fails.
// Without a good version, a new version is started at once. The first record is written after the gate
// of the first version, so that 1,000 new pods do not wait for 5,000 syncs of the disk.
//
// # Order of writes
//
// The rename of the record is the only commit. The manifests of a version are on the disk before a
// record names them, and a record is on the disk before the node is told to run another version. On
// a full disk, the store first deletes a reserve of 64 KiB. If the record still cannot be written,
// the unit stays in its phase, the good version runs on, and the write is tried again after 10 s. A
// rollback needs no write. If a record is damaged, the newest version has to pass its gate again,
// and the version before counts as good. A record of a newer agent is not changed, and its good
// version runs.
//
// # Goroutines
//
// Run of a source of Sources runs the source, decides, and waits for the goroutines that fetch
// images, one per unit in Staging. Decide and Gate are pure functions. TestSchedules runs Decide in
// virtual time.
//
// # Limits
//
//   - The content of emptyDir volumes belongs to a pod's UID. It ends with the pod, also before a
//     rollback. Data in hostPath and local volumes stays; changes by the next version are not undone.
//   - ConfigMaps and Secrets are not part of a version.
//   - An image is recorded by its reference. If its tag moves on the node, the good version starts
//     with the other image. Use digests or a new tag for each version.
//   - Staging checks fields and images, not free resources. A version that the gate of admission
//     refuses after the switch is rolled back.
//   - A pod that moves into or out of a group begins as a new unit.
package updates
