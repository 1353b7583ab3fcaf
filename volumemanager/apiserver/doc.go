// SPDX-License-Identifier: Apache-2.0

// Package apiserver has volumes made of what an API server knows: ConfigMaps and Secrets, claims, service account tokens
// and attached volumes, with no more rights than a node has.
//
// # Wiring
//
//	clients, err := kubernetes.NewForConfig(config) // QPS: -1, ContentType: "application/vnd.kubernetes.protobuf"
//	core := clients.CoreV1()
//	source, err := apiserver.NewObjects(apiserver.ObjectsOptions{
//		Client:  core,
//		Changed: func(r objects.Ref) { manager.Refresh(r.UsedBy) }, // files change within milliseconds
//		Logger:  logger,
//	})
//	node, err := apiserver.NewNode(apiserver.NodeOptions{Client: core, NodeName: "node-1"})
//	claims, err := apiserver.NewClaims(apiserver.ClaimsOptions{Client: core, Node: node.Get})
//	tokens, err := apiserver.NewTokens(apiserver.TokensOptions{Client: core})
//
//	configMaps, err := configmap.New(configmap.Options{Source: source})
//	secrets, err := secret.New(secret.Options{Source: source})
//	cached, err := projected.NewTokenCache(projected.TokenCacheOptions{Source: tokens, Due: …})
//	projections, err := projected.New(projected.Options{ConfigMaps: source, Secrets: source, Tokens: cached})
//	manager, err := volumemanager.New(volumemanager.Options{…, Claims: claims, Node: node})
//	go source.Run(ctx)
//
// and for volumes of CSI drivers, of plugins/csi, which some controller attaches:
//
//	node, err := apiserver.NewNode(apiserver.NodeOptions{…, Changed: func(n *v1.Node) {
//		manager.MarkVolumesAsReportedInUse(n.Status.VolumesInUse)
//		manager.NodeChanged()
//	}})
//	drivers, err := apiserver.NewDrivers(apiserver.DriversOptions{Client: clients.StorageV1()})
//	attachments, err := apiserver.NewAttachments(apiserver.AttachmentsOptions{Client: clients.StorageV1(), NodeName: "node-1"})
//	plugin, err := csi.New(csi.Options{…, Drivers: drivers, Attachments: attachments})
//	published, err := apiserver.NewCSINode(apiserver.CSINodeOptions{Client: clients.StorageV1(), Nodes: core, NodeName: "node-1",
//		Drivers: names, Info: …}) // plugin.Info: what attachers and the scheduler want to know of the drivers
//	go node.Run(ctx)
//	go drivers.Run(ctx)
//	go published.Run(ctx)
//	reported, err := node.ReportInUse(ctx, manager.GetVolumesInUse()) // on each volumemanager.Hooks.InUseChanged
//
//	source.Register(pod)       // before its first sync, and when it has changed
//	source.Unregister(pod.UID) // when nothing of it is left
//
// In examples/nodeagent Objects is nodeagent.Options.Objects, its Changed calls (*nodeagent.Agent).Refresh, and Claims and
// Tokens go into nodeagent.Cluster. Register is called where a pod of the API server's source is added or changed, or
// at the beginning of each SyncPod, and Unregister at the end of SyncTerminatedPod. Each part works without the others.
//
// # The caller's duties
//
//  1. Register the pods that an API server has bound to this node, before they are synced; static pods name objects of a
//     server by mistake only. An object that no registered pod uses is asked of the server at each call, and never
//     watched: that is right, and slow.
//  2. Unregister a pod when it needs nothing any more. A pod that is forgotten here costs a watch for each of its objects.
//  3. Let Changed return soon, and do not write to what ConfigMap and Secret return.
//  4. Set QPS of the rest.Config to what the server can take; client-go's default of 5 a second makes 100 objects wait for
//     20 s. Leave its Timeout at 0.
//  5. Give the agent get and watch on ConfigMaps and Secrets, get on persistentvolumeclaims, persistentvolumes and its
//     node, and create on serviceaccounts/token; for attached volumes also list and watch on its node, patch on
//     nodes/status, get on volumeattachments, and list and watch on csidrivers; for a CSINode get, create, update and delete
//     on csinodes, and patch on its node. With the Node authorizer it has them for
//     what its pods use. Without watch, objects are asked for every 30 to 60 seconds, and Problem is told.
//
// # An object's life
//
//	Waiting ──its turn──► Opening ──answer──► Watching ──the server ends it, 30–60 min──► Waiting
//	   ▲                    │  │
//	   ├──────failed────────┘  └──it is immutable──► Settled: no watch, no goroutine
//	   └──────────────────────another pod───────────────┘
//
// The watch of an object is opened from what the server has in its cache, and then the object is got from its database:
// two requests, of a millisecond each, after which the latest state is known and nothing can be missed. Events from before
// that are known by their resource versions, and change nothing.
//
// One object that is refused is asked for again after 50 ms, and up to every 30 to 60 s: the Node authorizer hears of a
// pod some milliseconds after its node. A server that is away gets one request at a time, whatever the number of objects,
// after 200 ms, and up to every 10 to 20 s; when it answers, everything else follows. The first answer about an object is
// waited for through all of that, for ObjectsOptions.Patience; Changed tells those who gave up.
//
// # Goroutines
//
// Objects.Run has one, and one for each object that is being opened or watched, beside client-go's for the watch; they
// have ended when it returns. Changed runs in that of the object, Problem in Run's. Node.Run, Drivers.Run and CSINode.Run
// have their caller's, beside client-go's for a watch, and one for each driver that is asked. Claims, Tokens and Attachments have none.
//
// # Differences from the kubelet (1.36)
//
//   - A change is told at once. The kubelet renews volumes with the sync of the pod, every 60 to 90 s (issue 30189).
//   - The first answer is the server's latest state. The kubelet lists from the server's cache, which may be behind, so
//     that a pod may start with what an object held before; a list that is not behind takes a tenth of a second.
//   - A new pod that the Node authorizer has not heard of waits some milliseconds. The kubelet's fails, with an event.
//   - An immutable object is got once more for each new pod that uses it. The kubelet keeps the old one as long as any
//     pod uses the name.
//   - An object that no pod has registered is got. To the kubelet it is an error.
//   - A 404 that is not the server's word about this object, as that of a proxy, is no "not found".
//   - Volumes in use are written when they change, by one patch; the kubelet writes them with its status, every 10 s (28141).
//   - In-tree volumes are not translated to CSI. CSI migration is done by controllers for what they provision.
//   - A node affinity by the node's name is understood; the kubelet compares it with no name.
//   - A volume whose mode differs from its claim's is refused.
//
// # Signatures
//
// volumemanager's contract asks Node for the labels of the node, too: Get returns the node, which is what mirror pods need
// as well.
package apiserver
