// SPDX-License-Identifier: Apache-2.0

// Package manifest decodes the manifest of a static pod into a complete v1.Pod: defaulted,
// validated and identified, as in the kubelet's file and URL sources. It contains no code of the
// kubelet.
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
// Every step is a pure function. A Decoder starts no goroutine, keeps no state between calls, and
// may be shared.
//
// # The caller's duties
//
//  1. Set NodeName. No other field is required.
//  2. Give each manifest the same Origin after a restart, because the Origin is part of the pod's
//     identity.
//  3. Show errors to the author of the manifest. An *Error is a single line that begins with line
//     and column. For each problem it names the field, the expected value and the remedy. It
//     contains no value of an environment variable, argument, annotation or header. Errors of a
//     caller's Validate and Policy are included unchanged.
//
// # Limits
//
// Memory is limited for any input. MaxBytes limits the size. A constant far above any real pod
// limits the number of values. Aliases count with their expanded size. Quantities with large
// exponents are rejected.
//
// # Defaults
//
// SetDefaults sets the following fields if the manifest does not, like an API server. A "="
// precedes a value derived from another field. container is every container including init and
// ephemeral containers, probe each of its three probes, hook each of its two lifecycle hooks,
// volume every volume.
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
//	spec.resources.limits.*                                             = itself, rounded up to 0.001; huge pages: the containers' total
//	spec.resources.requests.*                                           = the containers' total of CPU and memory, else the limit (KEP-2837)
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
// In addition, the decoder sets the properties of a static pod: the suffix of the name, the
// namespace "default", the node, the uid and the hash, the toleration of NoExecute taints (files
// only), and the phase Pending.
//
// # Differences from the kubelet (1.36)
//
//   - More than one document is an error. The kubelet silently ignores all but the first document.
//   - Unknown fields and duplicate keys are errors (Strict) or warnings. The kubelet ignores them
//     silently. Errors for wrong types name the field, also for malformed quantities.
//   - The UID is a hash of the node, the origin and the manifest's content as JSON before defaults,
//     also for URLs (the kubelet gives a pod from a URL the same UID on every node). The kubelet's
//     UIDs cannot be reproduced, see ContentUID.
//   - The annotation kubernetes.io/config.hash is always the hash of the content, also with an
//     explicit uid or PathUID.
//   - An explicit uid must be safe as a folder name.
//   - The reserved annotations config.hash, config.mirror, config.seen and config.source are
//     removed from manifests. Fields set only by a server are removed as well: status,
//     deletionTimestamp, resourceVersion and similar fields. A manifest from a dumped pod thus
//     works.
//   - A node name may contain upper-case letters.
//   - A null in a list is an error. The kubelet treats it as an empty element.
//   - Defaults and validation are this package's own; see SetDefaults and Validate for omitted
//     checks. ".." is rejected in every path, including mountPath, workingDir and
//     terminationMessagePath.
//
// # Choices of the interface
//
//   - OriginKind is a string, so that sources in other modules can add kinds.
//   - Limit and TooLarge let a caller reject a file without reading it.
//   - YAML is parsed to a tree of nodes, not through sigs.k8s.io/yaml. The nodes have positions,
//     and aliases with gigabytes of expanded content are detected before their expansion. Values
//     are interpreted as in sigs.k8s.io/yaml (YAML 1.1).
package manifest
