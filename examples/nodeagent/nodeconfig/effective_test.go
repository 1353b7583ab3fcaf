// SPDX-License-Identifier: Apache-2.0

package nodeconfig_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeconfig"
)

// effective returns the configuration of flags as JSON.
func effective(t *testing.T, flags map[string]string) string {
	t.Helper()
	all, err := nodeconfig.Effective(flags)
	require.NoError(t, err)
	text, err := json.Marshal(all)
	require.NoError(t, err)
	return string(text)
}

func TestEffectiveValues(t *testing.T) {
	only := effective(t, nil)
	assert.Contains(t, only, `"cpuManagerPolicy":"none"`, "the only value that is supported")
	assert.NotContains(t, only, "tracing")
	for _, tc := range []struct{ flag, text, want string }{
		{"anonymous-auth", "false", `"authentication":{"anonymous":{"enabled":false}}`},
		{"client-ca-file", "/ca.crt", `"authentication":{"x509":{"clientCAFile":"/ca.crt"}}`},
		{"client-ca-file", "", ""},
		{"cluster-dns", "[10.0.0.10,fd00::a]", `"clusterDNS":["10.0.0.10","fd00::a"]`},
		{"cluster-dns", "[]", ""},
		{"eviction-hard", "", `"evictionHard":{}`},
		{"eviction-hard", "memory.available<5%,pid.available<100", `"evictionHard":{"memory.available":"5%","pid.available":"100"}`},
		{"eviction-minimum-reclaim", "[nodefs.available=1Gi]", `"evictionMinimumReclaim":{"nodefs.available":"1Gi"}`},
		{"feature-gates", "[A=true,B=false]", `"featureGates":{"A":true,"B":false}`},
		{"image-gc-low-threshold", "0", `"imageGCLowThresholdPercent":0`},
		{"manifest-url-header", "Authorization:secret", ""},
		{"memory-throttling-factor", "0.9", `"memoryThrottlingFactor":0.9`},
		{"memory-throttling-factor", "0", ""},
		{"register-with-taints", "[a=b:NoSchedule,c:NoExecute]", `"registerWithTaints":[{"effect":"NoSchedule","key":"a","value":"b"},{"effect":"NoExecute","key":"c","value":""}]`},
		{"resolv-conf", "", `"resolvConf":""`},
		{"shutdown-grace-period-by-pod-priority", "[-1=10]", `"shutdownGracePeriodByPodPriority":[{"priority":-1,"shutdownGracePeriodSeconds":10}]`},
		{"no-such-flag", "1", ""},
	} {
		text := effective(t, map[string]string{tc.flag: tc.text})
		if tc.want == "" {
			assert.Equal(t, only, text, tc.flag)
		} else {
			assert.Contains(t, text, tc.want, tc.flag)
		}
	}
	_, err := nodeconfig.Effective(map[string]string{"port": "x"})
	require.ErrorContains(t, err, `port: "x"`)
}
