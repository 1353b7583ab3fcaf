// SPDX-License-Identifier: Apache-2.0

package kinds

import "fmt"

// idle are kinds that change nothing on a single node. They are accepted with a notice.
var idle = map[string]string{
	"Namespace":           "namespaces need no object on this node",
	"ServiceAccount":      "pods of this node have no identity at an API server",
	"PodDisruptionBudget": "this node evicts no pod for an API server",
	"PriorityClass":       "write spec.priority into the pods",
	"Role":                noRights, "RoleBinding": noRights, "ClusterRole": noRights, "ClusterRoleBinding": noRights,
}

const noRights = "pods of this node have no rights at an API server"

// refused are kinds that would change the behaviour of pods, with a remedy.
var refused = map[string]string{
	"NetworkPolicy":           "this node filters no traffic between pods, and without the policy every connection is open: use the firewall of the node, and remove the object",
	"Ingress":                 "no ingress controller runs here: run a proxy as a pod with a hostPort",
	"Gateway":                 "no gateway controller runs here: run a proxy as a pod with a hostPort",
	"HorizontalPodAutoscaler": "this node does not scale pods: set spec.replicas",
	"PersistentVolume":        "a claim is a folder of this node: remove the object, and the volumeName and storageClassName of its claim",
	"StorageClass":            "a claim is a folder of this node, whatever its class: remove the object, and add the class to the node (nodeagent --storage-class NAME)",
	"LimitRange":              "limits are not added to the pods: write them into the pods",
	"ResourceQuota":           "namespaces have no quota on this node: remove the object",
	"Endpoints":               noEndpoints, "EndpointSlice": noEndpoints,
	"CustomResourceDefinition": "this node has no API server: the program needs one",
}

const noEndpoints = "a Service of this node selects its pods: write the address into the pods"

// withoutMeaning ignores or refuses an object of a kind that is not a kind of this package.
func (e *expansion) withoutMeaning() {
	kind := e.doc.Kind()
	if why, ok := idle[kind]; ok {
		e.notice("kind", fmt.Sprintf("%s ignored: %s", kind, why))
		return
	}
	why, ok := refused[kind]
	if !ok {
		why = "this node has no meaning for the kind: remove the object"
	}
	e.refuse("kind", fmt.Sprintf("%s refused: %s", kind, why))
}
