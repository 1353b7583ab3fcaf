// SPDX-License-Identifier: Apache-2.0

// Package manifest turns the bytes of a static pod's manifest into a complete v1.Pod: decoded, defaulted, validated and
// identified, as the kubelet does it for its file and URL sources, without any of the kubelet's code.
//
//	dec := &manifest.Decoder{
//		NodeName: "edge-17",
//		Strict:   true,
//	}
//	if err := dec.Check(); err != nil {
//		return err
//	}
//	data, err := os.ReadFile("/etc/pods/web.yaml")
//	if err != nil {
//		return err
//	}
//	pod, err := dec.Pod(data, manifest.Origin{Kind: manifest.OriginFile, Location: "/etc/pods/web.yaml"})
//
// # Steps
//
//	bytes ── text? size? ──> tree ── kind? known fields? types? ──> canonical JSON ──> v1.Pod
//	      ──> name suffix, namespace, node, toleration, phase ──> UID and hash ──> defaults ──> validation ──> policy
//
// Every step is a pure function; a Decoder starts no goroutine, keeps nothing between calls, and may be shared.
//
// # The caller's duties
//
//  1. Give NodeName; nothing else is required.
//  2. Give each manifest the same Origin after a restart as before: it is part of the pod's identity.
//  3. Show errors to the author of the manifest: each is one line that names the field, and holds no value of an
//     environment variable, argument, annotation or header. Errors of one's own Validate and Policy are passed on as they
//     are.
//
// # What it costs to be wrong
//
// Memory is bounded for any input: the size by MaxBytes, the values of a document by a constant that no real pod comes
// near, aliases by what they expand to, far exponents in quantities by refusal.
//
// # Defaults
//
// What SetDefaults fills in where a manifest says nothing, as an API server does; "=" stands before what is taken from
// elsewhere. container is every container, init and ephemeral ones included, probe each of its three probes, hook each of
// its two lifecycle hooks, volume every volume.
//
//	spec.restartPolicy                                                  Always
//	spec.dnsPolicy                                                      ClusterFirst
//	spec.schedulerName                                                  default-scheduler
//	spec.terminationGracePeriodSeconds                                  30
//	spec.enableServiceLinks                                             true
//	spec.securityContext                                                {}
//	spec.serviceAccount                                                 = spec.serviceAccountName
//	spec.serviceAccountName                                             = spec.serviceAccount
//	spec.overhead.*                                                     = itself, rounded up to 0.001
//	spec.resources.limits.*                                             = itself, rounded up to 0.001; huge pages: what the containers need
//	spec.resources.requests.*                                           = what the containers need of CPU and memory, else the limit (KEP-2837)
//	container.terminationMessagePath                                    /dev/termination-log
//	container.terminationMessagePolicy                                  File
//	container.imagePullPolicy                                           Always            (tag "latest", or no tag and no digest)
//	container.imagePullPolicy                                           IfNotPresent      (any other)
//	container.ports[].protocol                                          TCP
//	container.ports[].hostPort                                          = containerPort   (with spec.hostNetwork)
//	container.env[].valueFrom.fieldRef.apiVersion                       v1
//	container.env[].valueFrom.fileKeyRef.optional                       false
//	container.resources.limits.*                                        = itself, rounded up to 0.001
//	container.resources.requests.*                                      = itself, rounded up to 0.001, else the limit
//	container.probe.timeoutSeconds                                      1
//	container.probe.periodSeconds                                       10
//	container.probe.successThreshold                                    1
//	container.probe.failureThreshold                                    3
//	container.probe.httpGet.path                                        /
//	container.probe.httpGet.scheme                                      HTTP
//	container.probe.grpc.service                                        ""
//	container.hook.httpGet.path                                         /
//	container.hook.httpGet.scheme                                       HTTP
//	volume.emptyDir                                                     {}                (no other source)
//	volume.hostPath.type                                                ""
//	volume.secret.defaultMode                                           0644
//	volume.configMap.defaultMode                                        0644
//	volume.downwardAPI.defaultMode                                      0644
//	volume.downwardAPI.items[].fieldRef.apiVersion                      v1
//	volume.projected.defaultMode                                        0644
//	volume.projected.sources[].downwardAPI.items[].fieldRef.apiVersion  v1
//	volume.projected.sources[].serviceAccountToken.expirationSeconds    3600
//	volume.projected.sources[].podCertificate.maxExpirationSeconds      86400
//	volume.image.pullPolicy                                             Always            (as imagePullPolicy)
//	volume.image.pullPolicy                                             IfNotPresent      (as imagePullPolicy)
//	volume.ephemeral.volumeClaimTemplate.spec.volumeMode                Filesystem
//	volume.ephemeral.volumeClaimTemplate.spec.resources.limits.*        = itself, rounded up to 0.001
//	volume.ephemeral.volumeClaimTemplate.spec.resources.requests.*      = itself, rounded up to 0.001
//	volume.iscsi.iscsiInterface                                         default
//	volume.rbd.pool                                                     rbd
//	volume.rbd.user                                                     admin
//	volume.rbd.keyring                                                  /etc/ceph/keyring
//	volume.azureDisk.cachingMode                                        ReadWrite
//	volume.azureDisk.kind                                               Shared
//	volume.azureDisk.fsType                                             ext4
//	volume.azureDisk.readOnly                                           false
//	volume.scaleIO.storageMode                                          ThinProvisioned
//	volume.scaleIO.fsType                                               xfs
//
// Then there is what makes a static pod of it: the suffix of the name, the namespace "default", the node, the uid and the
// hash, the toleration of NoExecute taints (files only), and the phase Pending.
//
// # Differences from the kubelet (1.36)
//
//   - More than one document is an error; the kubelet silently ignores all but the first.
//   - Unknown fields and duplicate keys are errors (Strict) or warnings; the kubelet says nothing. Wrong types name the
//     field, also where a quantity is malformed.
//   - The UID is a hash of the manifest's content as JSON before defaults, with node and origin, also for URLs (the kubelet's
//     UID of a URL's pod is the same on every node). The kubelet's values cannot be reproduced, see ContentUID.
//   - The annotation kubernetes.io/config.hash is always the content's hash, also with an explicit uid or PathUID.
//   - An explicit uid must be safe as a folder's name.
//   - The reserved annotations config.hash, config.mirror, config.seen and config.source are removed from manifests, and so
//     is what only a server says: status, deletionTimestamp, resourceVersion and their like. A manifest made of a dumped
//     pod works.
//   - A node name with upper-case letters is fine.
//   - A null in a list is an error; the kubelet reads it as an empty element.
//   - Defaults and validation are this package's own, see SetDefaults and Validate for what they leave out. ".." is refused
//     in every path, including mountPath, workingDir and terminationMessagePath.
//
// # Differences from the contract's sketch
//
//   - OriginKind is a string, so that sources outside of this module have kinds of their own.
//   - Decoder.Warn carries what a lenient decoder tolerates; Decoder.MultiDocument is the opt-in for several documents;
//     Decoder.Check reports a decoder's own faults; Limit and TooLarge let a caller refuse a file unread.
//   - The YAML parser is used directly, not through sigs.k8s.io/yaml: aliases that expand to gigabytes are caught before
//     they are written out.
package manifest
