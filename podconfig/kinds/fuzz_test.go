// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podconfig/kinds"
)

type v1Pod = v1.Pod

// FuzzExpand looks for manifests that panic, give an error of more than a line, or pods without a name, a
// UID or a node of their own.
func FuzzExpand(f *testing.F) {
	f.Add([]byte(apps + "kind: Deployment\nspec: {replicas: 2, " + selector + template + "}"))
	f.Add([]byte(apps + "kind: StatefulSet\nspec: {volumeClaimTemplates: [{metadata: {name: d}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1}}}}], " + selector + template + "}"))
	f.Add([]byte(batch + "kind: CronJob\nspec: {schedule: '@every 1m', jobTemplate: {spec: {" + jobPods + "}}}"))
	f.Add([]byte("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {selector: {a: b}, ports: [{port: 81, targetPort: http}]}}]"))
	f.Add([]byte(core + "kind: Service\nspec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80, targetPort: http}]}\n---\n" +
		apps + "kind: Deployment\nspec: {replicas: 0, " + selector + strings.Replace(named, "containerPort: 80", "containerPort: 80, hostPort: 80, hostIP: 0.0.0.0", 1) + "}"))
	f.Add([]byte(core + "kind: Service\nspec: {type: NodePort, selector: {a: b}, ports: [{port: 81, nodePort: 81, protocol: UDP}], loadBalancerSourceRanges: [10.0.0.0/8]}\n---\n" +
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {a: b}}\nspec: {hostNetwork: true, containers: [{name: c, image: i}]}"))
	f.Add([]byte(core + "kind: PersistentVolumeClaim\nspec: {accessModes: [ReadWriteOnce], storageClassName: \"a\\nb\", resources: {requests: {storage: 1Gi}}}"))
	f.Add([]byte(core + "kind: Secret\nstringData: {a: b}\n---\n" + core + "kind: ConfigMap\nbinaryData: {a: YQ==}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		pods, err := expander().Pods(data, origin)
		if err != nil {
			assert.NotContains(t, err.Error(), "\n")
			assert.NotContains(t, err.Error(), "does not fit a")
			return
		}
		seen := map[string]bool{}
		for _, pod := range pods {
			key := pod.Namespace + "/" + pod.Name
			require.False(t, seen[key], "twice: %s", key)
			seen[key] = true
			require.NotEmpty(t, pod.UID)
		}
		again, err := expander().Pods(data, origin)
		require.NoError(t, err)
		require.Equal(t, pods, again, "deterministic")
	})
}

// FuzzSchedule looks for schedules that panic, or have a next time in the past.
func FuzzSchedule(f *testing.F) {
	for _, text := range []string{"*/5 * * * *", "0 0 31 2 *", "@every 1h", "@reboot", "1-5,7 */2 ? JAN-MAR MON", "TZ=UTC * * * * *", "CRON_TZ=", "@every -1s", "* * * * * *"} {
		f.Add(text)
	}
	now := time.Date(2026, 3, 29, 1, 30, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := kinds.ParseSchedule(text)
		if err != nil {
			require.False(t, strings.Contains(err.Error(), "\n") && !strings.Contains(text, "\n"))
			return
		}
		next := s.Next(now)
		require.True(t, next.IsZero() || next.After(now), "%q: %s", text, next)
	})
}
