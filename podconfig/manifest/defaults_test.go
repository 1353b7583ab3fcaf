// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/podconfig/manifest"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

// defaulted returns the JSON of a pod's spec after SetDefaults.
func defaulted(t *testing.T, spec string) map[string]any {
	t.Helper()
	pod := &v1.Pod{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(spec), &pod.Spec))
	manifest.SetDefaults(pod)
	once := pod.DeepCopy()
	manifest.SetDefaults(pod)
	require.Equal(t, once, pod, "idempotent")
	return asMap(t, pod.Spec)
}

func asMap(t *testing.T, v any) map[string]any {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	m := map[string]any{}
	require.NoError(t, json.Unmarshal(data, &m))
	return m
}

// contains reports the parts of want, a YAML object, missing in got. An empty text in want means
// "not set".
func contains(t *testing.T, want, got any, path string) {
	t.Helper()
	switch want := want.(type) {
	case map[string]any:
		m, ok := got.(map[string]any)
		assert.True(t, ok, path)
		for key, w := range want {
			contains(t, w, m[key], path+"."+key)
		}
	case []any:
		list, _ := got.([]any)
		if assert.Len(t, list, len(want), path) {
			for i := range want {
				contains(t, want[i], list[i], path)
			}
		}
	default:
		assert.Equal(t, want, got, path)
	}
}

func TestDefaults(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"pod", "{}", `{restartPolicy: Always, dnsPolicy: ClusterFirst, schedulerName: default-scheduler, securityContext: {},
			terminationGracePeriodSeconds: 30, enableServiceLinks: true}`},
		{"pod keeps", "{restartPolicy: Never, terminationGracePeriodSeconds: 0, enableServiceLinks: false, dnsPolicy: None}",
			"{restartPolicy: Never, terminationGracePeriodSeconds: 0, enableServiceLinks: false, dnsPolicy: None}"},
		{"service account", "{serviceAccount: a}", "{serviceAccount: a, serviceAccountName: a}"},
		{"service account's new name", "{serviceAccountName: a, serviceAccount: b}", "{serviceAccount: a, serviceAccountName: a}"},
		{"container", "{containers: [{image: a}]}", `{containers: [{terminationMessagePath: /dev/termination-log,
			terminationMessagePolicy: File, imagePullPolicy: Always}]}`},
		{"init container", "{initContainers: [{image: 'a:1', ports: [{containerPort: 1}]}]}",
			"{initContainers: [{terminationMessagePolicy: File, imagePullPolicy: IfNotPresent, ports: [{protocol: TCP}]}]}"},
		{"ports", "{containers: [{ports: [{containerPort: 80}]}]}", "{containers: [{ports: [{protocol: TCP, hostPort: null}]}]}"},
		{"host network", "{hostNetwork: true, containers: [{ports: [{containerPort: 80}, {containerPort: 1, hostPort: 2}]}]}",
			"{containers: [{ports: [{hostPort: 80}, {hostPort: 2}]}]}"},
		{"requests from limits", "{containers: [{resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 1}}}]}",
			"{containers: [{resources: {requests: {cpu: '1', memory: 1Gi}}}]}"},
		{"limits not from requests", "{containers: [{resources: {requests: {cpu: 1}}}]}", "{containers: [{resources: {limits: null}}]}"},
		{"rounding", "{overhead: {cpu: 100u}, containers: [{resources: {limits: {cpu: 0.0001}}}]}",
			"{overhead: {cpu: 1m}, containers: [{resources: {limits: {cpu: 1m}, requests: {cpu: 1m}}}]}"},
		{"pod-level requests", `{resources: {limits: {cpu: 4, memory: 1Gi}}, containers: [{resources: {requests: {cpu: 1}}}, {resources: {limits: {cpu: 1}}}],
			initContainers: [{resources: {requests: {cpu: 3}}}, {restartPolicy: Always, resources: {requests: {cpu: 500m}}}]}`,
			"{resources: {requests: {cpu: '3', memory: 1Gi}}}"},
		{"pod-level requests with sidecar", `{resources: {limits: {cpu: 9}}, containers: [{resources: {requests: {cpu: 1}}}],
			initContainers: [{restartPolicy: Always, resources: {requests: {cpu: 500m}}}, {resources: {requests: {cpu: 3}}}]}`,
			"{resources: {requests: {cpu: 3500m}}}"},
		{"pod-level huge pages", `{resources: {limits: {cpu: 1}}, containers: [{resources: {limits: {hugepages-2Mi: 4Mi}}}]}`,
			"{resources: {limits: {hugepages-2Mi: 4Mi}, requests: {hugepages-2Mi: 4Mi}}}"},
		{"no pod-level resources", "{containers: [{resources: {limits: {cpu: 1}}}]}", "{resources: null}"},
		{"probe", "{containers: [{livenessProbe: {httpGet: {port: 1}}, readinessProbe: {grpc: {port: 1}}, startupProbe: {periodSeconds: 3}}]}",
			`{containers: [{livenessProbe: {timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3,
			httpGet: {path: /, scheme: HTTP}}, readinessProbe: {grpc: {service: ''}}, startupProbe: {periodSeconds: 3, timeoutSeconds: 1}}]}`},
		{"hooks", "{containers: [{lifecycle: {postStart: {httpGet: {port: 1}}, preStop: {httpGet: {port: 1, path: /x, scheme: HTTPS}}}}]}",
			"{containers: [{lifecycle: {postStart: {httpGet: {path: /, scheme: HTTP}}, preStop: {httpGet: {path: /x, scheme: HTTPS}}}}]}"},
		{"env", "{containers: [{env: [{valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {valueFrom: {fileKeyRef: {key: a}}}]}]}",
			"{containers: [{env: [{valueFrom: {fieldRef: {apiVersion: v1}}}, {valueFrom: {fileKeyRef: {optional: false}}}]}]}"},
		{"ephemeral container", "{ephemeralContainers: [{image: a}]}", "{ephemeralContainers: [{imagePullPolicy: Always}]}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var want map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(tt.want), &want))
			contains(t, want, defaulted(t, tt.in), "spec")
		})
	}
}

func TestVolumeDefaults(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"no source", "{}", "{emptyDir: {}}"},
		{"host path", "{hostPath: {path: /a}}", "{hostPath: {type: ''}, emptyDir: null}"},
		{"secret", "{secret: {}}", "{secret: {defaultMode: 420}}"},
		{"secret keeps", "{secret: {defaultMode: 0}}", "{secret: {defaultMode: 0}}"},
		{"config map", "{configMap: {}}", "{configMap: {defaultMode: 420}}"},
		{"downward API", "{downwardAPI: {items: [{fieldRef: {fieldPath: a}}]}}", "{downwardAPI: {defaultMode: 420, items: [{fieldRef: {apiVersion: v1}}]}}"},
		{"projected", `{projected: {sources: [{serviceAccountToken: {path: a}}, {downwardAPI: {items: [{fieldRef: {fieldPath: a}}]}}, {podCertificate: {}}]}}`,
			`{projected: {defaultMode: 420, sources: [{serviceAccountToken: {expirationSeconds: 3600}}, {downwardAPI: {items: [{fieldRef: {apiVersion: v1}}]}},
			{podCertificate: {maxExpirationSeconds: 86400}}]}}`},
		{"image", "{image: {reference: a}}", "{image: {pullPolicy: Always}}"},
		{"pinned image", "{image: {reference: 'a:1'}}", "{image: {pullPolicy: IfNotPresent}}"},
		{"iscsi", "{iscsi: {}}", "{iscsi: {iscsiInterface: default}}"},
		{"rbd", "{rbd: {}}", "{rbd: {pool: rbd, user: admin, keyring: /etc/ceph/keyring}}"},
		{"azure disk", "{azureDisk: {}}", "{azureDisk: {cachingMode: ReadWrite, kind: Shared, fsType: ext4, readOnly: false}}"},
		{"scale io", "{scaleIO: {}}", "{scaleIO: {storageMode: ThinProvisioned, fsType: xfs}}"},
		{"ephemeral rounds", "{ephemeral: {volumeClaimTemplate: {spec: {resources: {requests: {storage: 100u}}}}}}",
			"{ephemeral: {volumeClaimTemplate: {spec: {resources: {requests: {storage: 1m}}}}}}"},
		{"ephemeral", "{ephemeral: {volumeClaimTemplate: {spec: {}}}}", "{ephemeral: {volumeClaimTemplate: {spec: {volumeMode: Filesystem}}}}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var want map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(tt.want), &want))
			contains(t, want, defaulted(t, "{volumes: ["+tt.in+"]}")["volumes"].([]any)[0], "volume")
		})
	}
}

func TestPullPolicyDefault(t *testing.T) {
	for image, want := range map[string]v1.PullPolicy{
		"a": v1.PullAlways, "a:latest": v1.PullAlways, "a:1": v1.PullIfNotPresent, "r.io:5000/a": v1.PullAlways,
		"r.io:5000/a:1": v1.PullIfNotPresent, "a@sha256:0123": v1.PullIfNotPresent, "r.io:5000/a@sha256:0123": v1.PullIfNotPresent,
		"a:latest@sha256:0123": v1.PullAlways, "a:1@sha256:0123": v1.PullIfNotPresent,
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Image: image}}}}
		manifest.SetDefaults(pod)
		assert.Equal(t, want, pod.Spec.Containers[0].ImagePullPolicy, image)
	}
}

// TestGoldenPod compares a whole decoded pod. Run with -rewrite after an intended change.
func TestGoldenPod(t *testing.T) {
	in, err := os.ReadFile("testdata/full.yaml")
	require.NoError(t, err)
	golden(t, decode(t, strict(), string(in)), "testdata/full.golden.yaml")
}
