// SPDX-License-Identifier: Apache-2.0

// Package volumeapi reads the objects behind volumes from an API server: ConfigMaps and Secrets,
// claims, service account tokens and attached volumes. It needs only the rights of a node.
//
// # Wiring
//
//	clients, err := kubernetes.NewForConfig(config) // QPS: -1, ContentType: "application/vnd.kubernetes.protobuf"
//	core := volumeapi.FromCore(clients.CoreV1())
//	source, err := volumeapi.NewObjects(volumeapi.ObjectsOptions{
//		Client:  core,
//		Changed: func(r objects.Ref) { manager.Refresh(r.UsedBy) }, // files change within milliseconds
//		Logger:  logger,
//	})
//	node, err := volumeapi.NewNode(volumeapi.NodeOptions{Client: core, NodeName: "node-1"})
//	claims, err := volumeapi.NewClaims(volumeapi.ClaimsOptions{Client: core, Node: node.Get})
//	tokens, err := volumeapi.NewTokens(volumeapi.TokensOptions{Client: core})
//
//	configMaps, err := configmap.New(configmap.Options{Source: source})
//	secrets, err := secret.New(secret.Options{Source: source})
//	cached, err := projected.NewTokenCache(projected.TokenCacheOptions{Source: tokens, Due: …})
//	projections, err := projected.New(projected.Options{ConfigMaps: source, Secrets: source, Tokens: cached})
//	manager, err := volumemanager.New(volumemanager.Options{…, Claims: claims, Node: node})
//	go source.Run(ctx)
//
// and for volumes of CSI drivers (plugins/csi) with an attach controller:
//
//	node, err := volumeapi.NewNode(volumeapi.NodeOptions{…, Changed: func(n *v1.Node) {
//		manager.MarkVolumesAsReportedInUse(n.Status.VolumesInUse)
//		manager.NodeChanged()
//	}})
//	storage := volumeapi.FromStorage(clients.StorageV1())
//	drivers, err := volumeapi.NewDrivers(volumeapi.DriversOptions{Client: storage})
//	attachments, err := volumeapi.NewAttachments(volumeapi.AttachmentsOptions{Client: storage, NodeName: "node-1"})
//	plugin, err := csi.New(csi.Options{…, Drivers: drivers, Attachments: attachments})
//	published, err := volumeapi.NewCSINode(volumeapi.CSINodeOptions{Client: storage, Nodes: core, NodeName: "node-1",
//		Drivers: names, Info: …}) // plugin.Info: driver data for attachers and the scheduler
//	go node.Run(ctx)
//	go drivers.Run(ctx)
//	go published.Run(ctx)
//	reported, err := node.ReportInUse(ctx, manager.GetVolumesInUse()) // on each volumemanager.Hooks.InUseChanged
//
//	source.Register(pod)       // before the first sync, and after each change
//	source.Unregister(pod.UID) // when nothing of the pod is left
//
// In examples/nodeagent, Objects is node.Options.Objects, its Changed calls (*node.Agent).Refresh,
// and Claims and Tokens go into node.Cluster. Register is called when the API server's source adds
// or changes a pod, or at the beginning of each SyncPod, and Unregister at the end of
// SyncTerminatedPod. Each part works without the others.
//
// # The caller's duties
//
//  1. Register the pods that an API server has bound to this node, before their first sync. Do not
//     register static pods: they name objects of a server by mistake only. An object that no
//     registered pod uses is requested at each call and never watched: correct, but slow.
//  2. Unregister a pod when nothing of the pod is left. A pod that stays registered costs a watch
//     for each of its objects.
//  3. Let Changed return soon, and do not write to the results of ConfigMap and Secret.
//  4. Set QPS of the rest.Config to a rate that the server can bear. With client-go's default of 5
//     per second, 100 objects take 20 s. Leave its Timeout at 0.
//  5. Give the agent get and watch on ConfigMaps and Secrets, get on persistentvolumeclaims,
//     persistentvolumes and its node, and create on serviceaccounts/token. For attached volumes,
//     also list and watch on its node, patch on nodes/status, get on volumeattachments, and list
//     and watch on csidrivers. For a CSINode, get, create, update and delete on csinodes, and patch
//     on its node. The Node authorizer grants these rights for the objects of the node's pods.
//     Without watch, objects are requested every 30 to 60 seconds, and Problem is called.
//
// # An object's life
//
//	Waiting ──its turn──► Opening ──answer──► Watching ──the server ends it, 30–60 min──► Waiting
//	   ▲                    │  │
//	   ├──────failed────────┘  └──it is immutable──► Settled: no watch, no goroutine
//	   └──────────────────────another pod───────────────┘
//
// Objects opens the watch of an object at the state in the server's cache, and then gets the object
// from the server's database. These are two requests of a millisecond each. After them the latest
// state is known, and no later change is missed. Earlier events are recognized by their resource
// versions and ignored.
//
// If the server refuses an object, the request is retried after 50 ms, with back-off up to 30 to 60
// s: the Node authorizer knows a pod some milliseconds after its node does. During a server outage,
// a single request is sent at a time, whatever the number of objects, after 200 ms, with back-off
// up to 10 to 20 s. After an answer, all other objects follow. A call waits for the first answer
// about an object for ObjectsOptions.Patience. If a call has given up, Changed reports the later
// answer.
//
// # Goroutines
//
// Objects.Run uses its caller's goroutine, a goroutine for each object that is being opened or
// watched, and client-go's goroutines for the watches. All have ended when Run returns. Changed
// runs in the goroutine of the object, Problem in Run's goroutine. Node.Run, Drivers.Run and
// CSINode.Run use their caller's goroutine, client-go's goroutines for a watch, and a goroutine for
// each driver query. Claims, Tokens and Attachments start no goroutines.
//
// # Differences from the kubelet (1.36)
//
//   - A change is reported at once. The kubelet renews volumes in the sync of the pod, every 60 to
//     90 s (issue 30189).
//   - The first answer is the server's latest state. The kubelet lists from the server's cache. The
//     cache may be behind, so that a pod may start with an older state of an object. An up-to-date
//     list takes a tenth of a second.
//   - A new pod that the Node authorizer does not know yet waits some milliseconds. The kubelet's
//     pod fails, with an event.
//   - An immutable object is requested again for each new pod that uses the object. The kubelet
//     keeps the old object as long as any pod uses its name.
//   - An object of an unregistered pod is requested. In the kubelet this is an error.
//   - A 404 that is not the server's answer about the requested object, for example from a proxy,
//     does not count as "not found".
//   - Volumes in use are written when they change, in a single patch. The kubelet writes them with
//     its status, every 10 s (28141).
//   - In-tree volumes are not translated to CSI. Controllers perform CSI migration for the volumes
//     that they provision.
//   - A node affinity by the node's name (matchFields) is evaluated. The kubelet compares such an
//     affinity with an empty name, so that no node matches.
//   - A volume whose mode differs from its claim's mode is refused.
//
// Node.Get returns the whole Node object, because mirror pods need the object, too.
package volumeapi
