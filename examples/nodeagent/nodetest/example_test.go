// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"fmt"
	"strings"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
)

// ExampleShrink makes a failing script small. In a test, fails plays it on a node.
func ExampleShrink() {
	script, err := nodetest.ParseScript("found.txt", []byte(`
apply web
sleep 1m
apply job
sleep 1s
agent restart
exit job/c 1
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fails := func(s *nodetest.Script) bool {
		return strings.Contains(s.String(), "apply job") && strings.Contains(s.String(), "exit job/c")
	}
	fmt.Print(nodetest.Shrink(script, fails))
	// Output:
	// apply job
	// exit job/c 1
}
