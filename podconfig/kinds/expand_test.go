// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig/kinds"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

var origin = manifest.Origin{Kind: manifest.OriginFile, Location: "/m/app.yaml"}

// expander is that of a node with pod networks. It accepts references to objects.
func expander() *kinds.Expander {
	d := &manifest.Decoder{NodeName: "n", Strict: true}
	d.Policy = func(pod *v1Pod) error { return manifest.NoAPIReferences(kinds.WithoutObjects(pod)) }
	return &kinds.Expander{Decoder: d, NodeLabels: map[string]string{"disk": "ssd"}}
}

const (
	apps     = "apiVersion: apps/v1\nmetadata: {name: web}\n"
	batch    = "apiVersion: batch/v1\nmetadata: {name: pi}\n"
	core     = "apiVersion: v1\nmetadata: {name: x}\n"
	selector = "selector: {matchLabels: {app: web}}, "
	template = "template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}"
	named    = "template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i, ports: [{name: http, containerPort: 80}]}]}}"
	jobPods  = "template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}"
)

// summary lists the content of a set in a line.
func summary(set *kinds.Set) string {
	var all []string
	for _, p := range set.Pods {
		all = append(all, "pod "+p.Namespace+"/"+p.Name)
	}
	for _, c := range set.ConfigMaps {
		all = append(all, "configmap "+c.Namespace+"/"+c.Name)
	}
	for _, s := range set.Secrets {
		all = append(all, fmt.Sprintf("secret %s/%s %s", s.Namespace, s.Name, s.Data))
	}
	for _, c := range set.Claims {
		all = append(all, "claim "+c.Namespace+"/"+c.Name)
	}
	for _, s := range set.Services {
		all = append(all, "service "+s.Namespace+"/"+s.Name)
	}
	for _, j := range set.Jobs {
		all = append(all, "job "+j.Namespace+"/"+j.Name)
	}
	for _, c := range set.CronJobs {
		all = append(all, "cronjob "+c.Namespace+"/"+c.Name)
	}
	for _, n := range set.Notices {
		all = append(all, "notice "+n)
	}
	return strings.Join(all, ", ")
}

func TestExpand(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"deployment", apps + "kind: Deployment\nspec: {" + selector + template + "}", "pod default/web-0-n"},
		{"replicas", apps + "kind: Deployment\nspec: {replicas: 3, " + selector + template + "}", "pod default/web-0-n, pod default/web-1-n, pod default/web-2-n"},
		{"no replicas", apps + "kind: Deployment\nspec: {replicas: 0, " + selector + template + "}", ""},
		{"rolling update", apps + "kind: Deployment\nspec: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 25%}}, " + selector + template + "}",
			"pod default/web-0-n, notice 4:40: spec.strategy.rollingUpdate: ignored: each pod of this node is replaced in its place, see the annotation keelson.dev/update"},
		{"dumped deployment", apps + "kind: Deployment\nspec: {" + selector + template + "}\nstatus: {replicas: 1}\n", "pod default/web-0-n"},
		{"replica set", apps + "kind: ReplicaSet\nspec: {" + selector + template + "}", "pod default/web-0-n"},
		{"replication controller", core + "kind: ReplicationController\nspec: {selector: {app: web}, " + template + "}", "pod default/x-0-n"},
		{"daemon set", apps + "kind: DaemonSet\nspec: {" + selector + template + "}", "pod default/web-n"},
		{"daemon set for this node", apps + "kind: DaemonSet\nspec: {" + selector + strings.Replace(template, "containers", "nodeSelector: {disk: ssd}, containers", 1) + "}", "pod default/web-n"},
		{"daemon set for other nodes", apps + "kind: DaemonSet\nspec: {" + selector + strings.Replace(template, "containers", "nodeSelector: {disk: hdd}, containers", 1) + "}",
			"notice 4:95: spec.template.spec.nodeSelector: no pod: this node has other labels"},
		{"stateful set", apps + "kind: StatefulSet\nspec: {replicas: 2, podManagementPolicy: Parallel, ordinals: {start: 5}, " + selector + template + "}", "pod default/web-5-n, pod default/web-6-n"},
		{"job", batch + "kind: Job\nspec: {" + jobPods + "}", "job default/pi"},
		{"cron job", batch + "kind: CronJob\nspec: {schedule: '@hourly', jobTemplate: {spec: {" + jobPods + "}}}", "cronjob default/pi"},
		{"config map", core + "kind: ConfigMap\ndata: {a: b}", "configmap default/x"},
		{"secret", core + "kind: Secret\ndata: {a: YQ==, b: YQ==}\nstringData: {b: c}", "secret default/x map[a:a b:c]"},
		{"no replicas behind a named port", apps + "kind: Deployment\nspec: {replicas: 0, " + selector + named + "}\n---\n" + core + "kind: Service\nspec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}", "service default/x"},
		{"no members behind a named port", apps + "kind: StatefulSet\nspec: {replicas: 0, volumeClaimTemplates: [{metadata: {name: d}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}], " + selector +
			strings.Replace(named, "image: i", "image: i, volumeMounts: [{name: d, mountPath: /d}]", 1) + "}\n---\n" + core + "kind: Service\nspec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}", "service default/x"},
		{"daemon set for other nodes behind a named port", apps + "kind: DaemonSet\nspec: {" + selector + strings.Replace(named, "containers", "nodeSelector: {disk: hdd}, containers", 1) + "}\n---\n" + core + "kind: Service\nspec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}",
			"service default/x, notice 4:95: spec.template.spec.nodeSelector: no pod: this node has other labels"},
		{"claim", core + "kind: PersistentVolumeClaim\nspec: {accessModes: [ReadWriteOnce], storageClassName: local, resources: {requests: {storage: 1Gi}}}", "claim default/x"},
		{"service", core + "kind: Service\nspec: {selector: {app: web}, ports: [{port: 80}]}", "service default/x"},
		{"headless service", core + "kind: Service\nspec: {clusterIP: None, selector: {app: web}}", "service default/x"},
		{"named port", "kind: List\napiVersion: v1\nitems:\n- {apiVersion: v1, kind: Service, metadata: {name: s}, spec: {selector: {a: b}, ports: [{port: 81, targetPort: http}]}}\n" +
			"- {apiVersion: v1, kind: Pod, metadata: {name: p, labels: {a: b}}, spec: {containers: [{name: c, image: i, ports: [{name: http, containerPort: 81}]}]}}",
			"pod default/p-n, service default/s"},
		{"documents", core + "kind: ConfigMap\n---\n" + core + "kind: Secret\n---\n" + "apiVersion: v1\nkind: Namespace\nmetadata: {name: prod}\n",
			"configmap default/x, secret default/x map[], notice 10:1: kind: Namespace ignored: namespaces need no object on this node"},
		{"namespaces", core + "kind: ConfigMap\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: other}\n", "configmap default/x, configmap other/x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set, err := expander().Expand([]byte(tt.text), origin)
			require.NoError(t, err)
			assert.Equal(t, tt.want, summary(set))
		})
	}
}

func TestExpandRefuses(t *testing.T) {
	d := func(spec string) string { return apps + "kind: Deployment\nspec: {" + spec + "}" }
	s := func(spec string) string {
		return apps + "kind: StatefulSet\nspec: {" + spec + ", " + selector + template + "}"
	}
	j := func(spec string) string { return batch + "kind: Job\nspec: {" + spec + ", " + jobPods + "}" }
	c := func(spec string) string {
		return batch + "kind: CronJob\nspec: {" + spec + ", jobTemplate: {spec: {" + jobPods + "}}}"
	}
	v := func(spec string) string { return core + "kind: PersistentVolumeClaim\nspec: {" + spec + "}" }
	tests := []struct{ name, text, want string }{
		{"no kind", "apiVersion: v1", "1:1: not a Pod: kind is missing"},
		{"unknown kind", core + "kind: Widget", `3:7: kind: Widget refused: this node has no meaning for the kind: remove the object`},
		{"old version", "apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: web}", `1:13: apiVersion: a Deployment of this node has the apiVersion "apps/v1"`},
		{"network policy", core + "kind: NetworkPolicy", "3:7: kind: NetworkPolicy refused: this node filters no traffic"},
		{"no name", "apiVersion: v1\nkind: Secret\n", "1:1: metadata.name: Required value: every object needs a name"},
		{"bad name", "apiVersion: v1\nkind: Secret\nmetadata: {name: ../x}\n", "3:18: metadata.name: want at most 253 lower-case letters"},
		{"twice", core + "kind: Secret\n---\n" + core + "kind: Secret\n", "6:18: metadata.name: Duplicate value: the manifest has another Secret of this name"},
		{"same pods", d(selector+template) + "\n---\n" + apps + "kind: StatefulSet\nspec: {" + selector + template + "}", "Duplicate value: the manifest has another Pod"},
		{"misspelled", d("replica: 2, " + selector + template), `4:8: spec.replica: unknown field, did you mean "replicas"?`},
		{"misspelled in a template", d(selector + strings.Replace(template, "image", "imagee", 1)), "spec.template.spec.containers[0].imagee: unknown field"},
		{"invalid template", d(selector + strings.Replace(template, "name: c", "name: C", 1)), "4:115: spec.template.spec.containers[0].name: Invalid value"},
		{"reference", d(selector + strings.Replace(template, "spec: {", "spec: {serviceAccountName: robot, ", 1)),
			"spec.template.spec.serviceAccountName: static pods may not reference serviceaccounts"},
		{"wrong type", d("replicas: two, " + selector + template), "4:18: spec.replicas: expected a whole number, got a string"},
		{"no selector", d(template), "spec.selector: Required value"},
		{"other selector", d("selector: {matchLabels: {app: db}}, " + template), "4:8: spec.selector: it does not select the pods of spec.template"},
		{"many replicas", d("replicas: 501, " + selector + template), "4:18: spec.replicas: want 0 to 500"},
		{"same host port", d("replicas: 2, " + selector + strings.Replace(template, "image: i", "image: i, ports: [{containerPort: 80, hostPort: 80}]", 1)),
			"4:18: spec.replicas: 2 pods of a node cannot have the same hostPort 80: set it to 1"},
		{"strategy", d("strategy: {type: BlueGreen}, " + selector + template), "4:25: spec.strategy.type: want RollingUpdate or Recreate"},
		{"partition", s("updateStrategy: {rollingUpdate: {partition: 1}}"), "4:52: spec.updateStrategy.rollingUpdate.partition: all pods of this node change"},
		{"on delete", s("updateStrategy: {type: OnDelete}"), "4:31: spec.updateStrategy.type: want RollingUpdate"},
		{"delete claims", s("persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}"), "4:60: spec.persistentVolumeClaimRetentionPolicy[whenDeleted]: want Retain"},
		{"class of a template", s("volumeClaimTemplates: [{metadata: {name: d}, spec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]"),
			`4:78: spec.volumeClaimTemplates[0].spec.storageClassName: this node has the classes ["local"]: set one of them, remove the field, or add the class to the node (nodeagent --storage-class fast)`},
		{"bad name of a template", s("volumeClaimTemplates: [{metadata: {name: ../d}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]"),
			"4:49: spec.volumeClaimTemplates[0].metadata.name: Required value: the name of a volume"},
		{"invalid template without replicas", d("replicas: 0, " + selector + strings.Replace(template, "name: c", "name: C", 1)), "spec.template.spec.containers[0].name: Invalid value"},
		{"restart policy", strings.Replace(j("completions: 1"), "Never", "Always", 1), "spec.template.spec.restartPolicy: want OnFailure or Never"},
		{"indexed", j("completionMode: Indexed"), "spec.completions: Required value"},
		{"failure policy", j("podFailurePolicy: {rules: []}"), "4:8: spec.podFailurePolicy: failures of this node are counted in backoffLimit only: remove it"},
		{"managed", j("managedBy: example.com/x"), "4:19: spec.managedBy: no other controller runs here"},
		{"negative", j("completions: -1"), "4:21: spec.completions: want 0 to 10000"},
		{"no schedule", c("suspend: true"), "spec.schedule: Required value"},
		{"bad schedule", c("schedule: '61 * * * *'"), "4:18: spec.schedule: want five fields"},
		{"zone in schedule", c("schedule: 'TZ=UTC 0 0 * * *'"), "4:18: spec.schedule: no TZ in a schedule"},
		{"zone", c("schedule: '@daily', timeZone: Mars/Olympus"), "4:38: spec.timeZone: unknown time zone"},
		{"concurrency", c("schedule: '@daily', concurrencyPolicy: Never"), "4:47: spec.concurrencyPolicy: want Allow, Forbid or Replace"},
		{"template of a cron job", strings.Replace(c("schedule: '@daily'"), "image: i", "image: ''", 1), "spec.jobTemplate.spec.template.spec.containers[0].image: Required value"},
		{"claim without a mode", v("resources: {}"), "spec.accessModes: Required value"},
		{"claim without a size", v("accessModes: [ReadWriteOnce]"), "spec.resources.requests: Required value"},
		{"block", v("accessModes: [ReadWriteOnce], volumeMode: Block, resources: {requests: {storage: 1Gi}}"), "4:50: spec.volumeMode: a claim of this node is a folder"},
		{"volume", v("accessModes: [ReadWriteOnce], volumeName: pv1, resources: {requests: {storage: 1Gi}}"), "4:50: spec.volumeName: a claim of this node is a new folder"},
		{"class", v("accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 1Gi}}"), `4:56: spec.storageClassName: this node has the classes ["local"]: set one`},
		{"no class", v(`accessModes: [ReadWriteOnce], storageClassName: "a\n b", resources: {requests: {storage: 1Gi}}`), `4:56: spec.storageClassName: no name of a class: this node has the classes ["local"]`},
		{"class in the annotation", "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: x, annotations: {volume.beta.kubernetes.io/storage-class: fast}}\nspec: {accessModes: [ReadWriteOnce], storageClassName: local, resources: {requests: {storage: 1Gi}}}",
			`3:76: metadata.annotations[volume.beta.kubernetes.io/storage-class]: this node has the classes ["local"]`},
		{"object of a class", "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast}", "2:7: kind: StorageClass refused: a claim is a folder of this node, whatever its class"},
		{"load balancer", core + "kind: Service\nspec: {type: LoadBalancer, selector: {a: b}, ports: [{port: 80}]}", "4:14: spec.type: LoadBalancer refused"},
		{"no pods", core + "kind: Service\nspec: {ports: [{port: 80}]}", "spec.selector: Required value"},
		{"translated port", core + "kind: Service\nspec: {selector: {a: b}, ports: [{port: 80, targetPort: 8080}]}", "4:57: spec.ports[0].targetPort: this node translates no ports: set port to 8080"},
		{"the pod of a port has a problem", core + "kind: Service\nspec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}\n---\n" + d("replicas: 501, "+selector+template), "9:18: spec.replicas: want 0 to 500"},
		{"port of no pod", core + "kind: Service\nspec: {selector: {a: b}, ports: [{port: 80, targetPort: http}]}", `4:57: spec.ports[0].targetPort: no selected pod of this manifest has a port "http"`},
		{"item", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: s}, dat: {}}\n", "4:55: dat: unknown field"},
		{"list in a list", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: List}\n", "4:26: kind: a List inside a List"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set, err := expander().Expand([]byte(tt.text), origin)
			require.ErrorContains(t, err, tt.want)
			require.Nil(t, set)
			assert.NotContains(t, err.Error(), "\n")
			problems, _ := errors.AsType[*manifest.Error](err)
			assert.Len(t, problems.Problems, 1, "no other problem follows")
		})
	}
}

// A claim with its volume keeps the volume when the node has the claim's class no longer. All claims of a
// template have to be bound.
func TestClassesOfClaims(t *testing.T) {
	claim := core + "kind: PersistentVolumeClaim\nspec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 1Gi}}}"
	members := func(n int) string {
		return apps + fmt.Sprintf("kind: StatefulSet\nspec: {podManagementPolicy: Parallel, replicas: %d, volumeClaimTemplates: [{metadata: {name: d}, spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 1Gi}}}}], ", n) +
			selector + template + "}"
	}
	const refused, kept = "storageClassName: this node has the classes", "storageClassName: ignored: this node does not have the class any more"
	tests := []struct {
		name, text  string
		classes     []string
		bound       []string
		fault, want string
	}{
		{"a class of the node", claim, []string{"local", "fast"}, nil, "", "claim default/x"},
		{"classes of a template", members(2), []string{"fast"}, nil, "", "pod default/web-0-n, pod default/web-1-n, claim default/d-web-0, claim default/d-web-1"},
		{"the class is gone", claim, nil, nil, refused, ""},
		{"another claim is bound", claim, nil, []string{"other/x", "default/y"}, refused, ""},
		{"a bound claim", claim, nil, []string{"default/x"}, "", kept},
		{"bound members", members(2), nil, []string{"default/d-web-0", "default/d-web-1"}, "", kept},
		{"a new member", members(2), nil, []string{"default/d-web-0"}, refused, ""},
		{"no member", members(0), nil, nil, "", kept},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := expander()
			x.Classes = tt.classes
			x.Bound = func(namespace, name string) bool { return slices.Contains(tt.bound, namespace+"/"+name) }
			set, err := x.Expand([]byte(tt.text), origin)
			if tt.fault != "" {
				require.ErrorContains(t, err, tt.fault)
				return
			}
			require.NoError(t, err)
			assert.Contains(t, summary(set), tt.want)
			assert.Equal(t, tt.want == kept, len(set.Notices) > 0)
		})
	}
}

// On a node without pod networks, the pods of a Deployment share the ports of the node.
func TestReplicasWithoutPodNetworks(t *testing.T) {
	x := expander()
	x.Decoder.OnlyHostNetwork = true
	text := apps + "kind: Deployment\nspec: {replicas: 2, " + selector + strings.Replace(template, "image: i", "image: i, ports: [{containerPort: 80}]", 1) + "}"
	_, err := x.Expand([]byte(text), origin)
	require.ErrorContains(t, err, "4:18: spec.replicas: this node has no pod networks, 2 pods cannot have the same port 80: set it to 1")
}

func TestExpandedPods(t *testing.T) {
	text := apps + "kind: StatefulSet\nspec: {serviceName: db, minReadySeconds: 7, replicas: 2, podManagementPolicy: Parallel, " + selector +
		"volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}], " +
		strings.Replace(template, "image: i", "image: i, volumeMounts: [{name: data, mountPath: /data}]", 1) + "}"
	x := expander()
	x.Decoder.Policy = nil
	_, err := x.Expand([]byte(text), origin)
	require.ErrorContains(t, err, "persistentvolumeclaims", "the policy sees the claims")
	x.Decoder.Policy = func(*v1Pod) error { return nil }
	set, err := x.Expand([]byte(text), origin)
	require.NoError(t, err)
	require.Len(t, set.Pods, 2)
	assert.Equal(t, "pod default/web-0-n, pod default/web-1-n, claim default/data-web-0, claim default/data-web-1", summary(set))
	first, second := set.Pods[0], set.Pods[1]
	assert.NotEqual(t, first.UID, second.UID)
	assert.Equal(t, "web-1", second.Spec.Hostname)
	assert.Equal(t, map[string]string{"app": "web", "statefulset.kubernetes.io/pod-name": "web-1", "apps.kubernetes.io/pod-index": "1"}, second.Labels)
	assert.Equal(t, "data-web-1", second.Spec.Volumes[0].PersistentVolumeClaim.ClaimName)
	assert.Equal(t, "7", second.Annotations["keelson.dev/update-gate-seconds"])

	again, err := x.Expand([]byte(strings.Replace(text, "replicas: 2", "replicas: 1", 1)), origin)
	require.NoError(t, err)
	assert.Equal(t, first, again.Pods[0], "another number of replicas changes no pod")
	other, err := x.Expand([]byte(strings.Replace(text, "image: i", "image: j", 1)), origin)
	require.NoError(t, err)
	assert.NotEqual(t, first.UID, other.Pods[0].UID)
}

// A file with a single Pod has the same pod as without this package.
func TestAPodIsThePodOfTheDecoder(t *testing.T) {
	text := []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: i}]}\n")
	x := expander()
	want, err := x.Decoder.Pod(text, origin)
	require.NoError(t, err)
	pods, err := x.Pods(text, origin)
	require.NoError(t, err)
	require.Equal(t, []*v1Pod{want}, pods)
}
