// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus/host"
)

func TestUsage(t *testing.T) {
	m := machine(t, map[string]string{
		"proc/stat": "cpu  100 20 30 4000 500 6 7 8 90 0\ncpu0 1 2 3 4 5 6 7 8 9 0\nintr 1\nbtime 1700000000\n",
		"proc/meminfo": "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 500 kB\nInactive: 400 kB\nInactive(file): 150 kB\nAnonPages: 222 kB\nSReclaimable: 20 kB\n" +
			"SwapTotal: 64 kB\nSwapFree: 60 kB\nHugePages_Total: 5\n",
		"proc/vmstat": "pgfault 123\npgmajfault 4\n",
		"proc/self/net/dev": "Inter-|   Receive                                                |  Transmit\n" +
			" face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n" +
			"    lo: 9 9 9 9 0 0 0 0 9 9 9 9 0 0 0 0\n" +
			"  eth0: 1000 10 1 2 0 0 0 0 2000 20 3 4 0 0 0 0\n" +
			"ens3:5 6 7 8 0 0 0 0 1 2 3 4 0 0 0 0\n" +
			"veth1: 9 9 9 9 0 0 0 0 9 9 9 9 0 0 0 0\n",
		"proc/self/net/route": "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n" +
			"eth0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n" +
			"ens3\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n",
	})
	require.Equal(t, host.Usage{
		Boot: time.Unix(1700000000, 0),
		CPU:  1630 * time.Millisecond,
		Memory: host.MemoryUsage{
			Used: 700 << 10, WorkingSet: 530 << 10, Available: 470 << 10, Anonymous: 222 << 10, PageFaults: 123, MajorPageFaults: 4,
		},
		SwapUsed: 4 << 10, SwapFree: 60 << 10,
		Interfaces: []host.Interface{
			{Name: "eth0", ReceivedBytes: 1000, ReceivedPackets: 10, ReceiveErrors: 1, ReceiveDropped: 2, SentBytes: 2000, SentPackets: 20, SendErrors: 3, SendDropped: 4},
			{Name: "ens3", ReceivedBytes: 5, ReceivedPackets: 6, ReceiveErrors: 7, ReceiveDropped: 8, SentBytes: 1, SentPackets: 2, SendErrors: 3, SendDropped: 4, IsDefault: true},
		},
	}, m.Usage())
	require.Equal(t, host.Usage{}, machine(t, map[string]string{"proc/stat": "cpu 1\nbtime x\n"}).Usage())
}

func TestUsageOfThisMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has /proc")
	}
	u := host.Machine{}.Usage()
	assert.Positive(t, u.CPU)
	assert.Positive(t, u.Memory.WorkingSet)
	assert.LessOrEqual(t, u.Memory.WorkingSet, u.Memory.Used)
	assert.Positive(t, u.Memory.Available)
	assert.True(t, u.Boot.Before(time.Now()))
}
