// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/keelson-dev/keelson/examples/simulation/sim/openb"
)

func tableCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	set := flag.NewFlagSet("simulate table", flag.ContinueOnError)
	trace := set.String("trace", "", "openb:`FOLDER` with openb_node_list_gpu_node.csv and openb_pod_list_*.csv")
	first := set.Int64("seed", 42, "first seed")
	count := set.Int("seeds", 10, "number of seeds")
	if err := parse(set, args, stderr); err != nil {
		return err
	}
	dir, ok := strings.CutPrefix(*trace, "openb:")
	switch {
	case set.NArg() > 0:
		return fmt.Errorf("table: unexpected argument %q", set.Arg(0))
	case !ok || dir == "":
		return fmt.Errorf("table: -trace %q: want openb:FOLDER", *trace)
	case *count < 1:
		return fmt.Errorf("table: -seeds %d: want at least 1", *count)
	}
	folder, err := openb.OpenFolder(dir)
	if err != nil {
		return err
	}
	seeds := make([]int64, *count)
	for i := range seeds {
		seeds[i] = *first + int64(i)
	}
	cells, err := folder.Table(ctx, seeds)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "GPU allocation at 100 %% demand, in %%: %d seeds from %d on\n\n", *count, *first)
	fmt.Fprintf(stdout, "| pod list | policy | min–max | median | published | median inside |\n|---|---|---|---|---|---|\n")
	outside := 0
	for _, c := range cells {
		published, inside := "–", "–"
		if c.Published[0] > 0 {
			published, inside = fmt.Sprintf("%.1f–%.1f", c.Published[0], c.Published[1]), "yes"
		}
		if !c.Inside() {
			inside = "no"
			outside++
		}
		fmt.Fprintf(stdout, "| %s | %s | %.1f–%.1f | %.2f | %s | %s |\n",
			c.List, c.Policy, c.At100[0], c.At100[len(c.At100)-1], c.Median(), published, inside)
	}
	if outside > 0 {
		return fmt.Errorf("table: %d medians are outside of the published ranges", outside)
	}
	return nil
}
