// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
	"github.com/keelson-dev/keelson/examples/simulation/sim/kube"
	"github.com/keelson-dev/keelson/examples/simulation/sim/openb"
	"github.com/keelson-dev/keelson/examples/simulation/sim/philly"
	"github.com/keelson-dev/keelson/examples/simulation/sim/simkube"
	"github.com/keelson-dev/keelson/examples/simulation/sim/workload"
)

// input are the flags of a workload, a cluster and its faults.
type input struct {
	trace, policy, backend string
	kubeconfig, namespace  string
	seed                   uint64
	replay                 bool

	nodes      int
	node, pods string

	jobs, users, gang int
	every, mean       time.Duration
	diurnal           float64

	create, stop, faultFor, until time.Duration
	image, bandwidth              string
	faults                        float64
}

func (in *input) flags(set *flag.FlagSet, policy string) {
	set.StringVar(&in.trace, "trace", "poisson", "the workload: poisson (generated), openb:`FOLDER`[:LIST], philly:FILE or simkube:FILE")
	set.StringVar(&in.policy, "policy", policy, "schedulers, separated by commas: "+strings.Join(policyNames(), ", "))
	set.StringVar(&in.backend, "backend", "timers", "what runs the pods: `timers`, agents (the agent of each node, on an API server in memory) or api (the agents on the API server of -kubeconfig, in real time)")
	set.StringVar(&in.kubeconfig, "kubeconfig", "", "-backend api: `file` with the address and the credentials of an API server for simulations")
	set.StringVar(&in.namespace, "namespace", "", "-backend api: the `namespace` of the pods, which exists; empty: default")
	set.Uint64Var(&in.seed, "seed", 42, "of all random numbers")
	set.BoolVar(&in.replay, "replay", false, "openb: pods arrive and end as recorded, instead of the experiment of the paper")
	set.IntVar(&in.nodes, "nodes", 100, "number of nodes, except for openb")
	set.StringVar(&in.node, "node", "cpu=32,memory=128Gi,pods=110", "`resources` of a node; gpus=8 are GPUs by device")
	set.StringVar(&in.pods, "pods", "cpu=1,memory=2Gi;cpu=2,memory=4Gi;cpu=4,memory=8Gi", "poisson: `kinds` of pods, with equal chances; priority=1 and gpus=0.5 are possible")
	set.IntVar(&in.jobs, "jobs", 10_000, "poisson: number of jobs")
	set.IntVar(&in.users, "users", 10, "poisson: number of users")
	set.IntVar(&in.gang, "gang", 1, "poisson: pods of a job, which start together")
	set.DurationVar(&in.every, "every", time.Second, "poisson: mean time between arrivals")
	set.DurationVar(&in.mean, "mean", 20*time.Minute, "poisson: mean duration of a job")
	set.Float64Var(&in.diurnal, "diurnal", 0, "poisson: rate in the night as a share of the rate at noon; 0: no days")
	set.DurationVar(&in.create, "create", 0, "time to create the containers of a pod")
	set.DurationVar(&in.stop, "stop", 0, "time from SIGTERM to the end of a pod")
	set.StringVar(&in.image, "image", "", "`size` of the image of each kind of pods, such as 1Gi; needs -bandwidth")
	set.StringVar(&in.bandwidth, "bandwidth", "", "`bytes` per second of pulls, such as 100Mi")
	set.Float64Var(&in.faults, "faults", 0, "failures of a node per day; evicted pods are submitted again")
	set.DurationVar(&in.faultFor, "fault-for", 10*time.Minute, "duration of a failure")
	set.DurationVar(&in.until, "until", 0, "end of the run; 0: the end of the workload")
}

// source is a workload with its cluster.
type source struct {
	in         *input
	origin     string
	nodes      []*v1.Node
	workload   sim.Workload
	pods       []openb.Pod       // for the typical pods of FGD and the median pod
	experiment *openb.Experiment // nil: workload
}

// open reads the trace.
func (in *input) open() (*source, error) {
	kind, path, _ := strings.Cut(in.trace, ":")
	s := &source{in: in}
	switch api := in.backend == "api"; {
	case !api && in.backend != "timers" && in.backend != "agents":
		return nil, fmt.Errorf("-backend %s: want timers, agents or api", in.backend)
	case api && in.kubeconfig == "":
		return nil, fmt.Errorf("-backend api needs -kubeconfig FILE")
	case !api && (in.kubeconfig != "" || in.namespace != ""):
		return nil, fmt.Errorf("-kubeconfig and -namespace: only with -backend api")
	}
	if in.replay && kind != "openb" {
		return nil, fmt.Errorf("-replay: only of -trace openb:FOLDER")
	}
	if (in.image == "") != (in.bandwidth == "") {
		return nil, fmt.Errorf("-image and -bandwidth belong together")
	}
	if in.faults < 0 || in.diurnal < 0 || in.diurnal > 1 {
		return nil, fmt.Errorf("-faults is not negative, and -diurnal is from 0 to 1")
	}
	if kind == "openb" {
		return s, s.openb(path)
	}
	var err error
	if s.nodes, err = cluster(in.nodes, in.node); err != nil {
		return nil, err
	}
	switch kind {
	case "poisson":
		return s, s.poisson()
	case "philly":
		return s, s.philly(path)
	case "simkube":
		return s, s.simkube(path)
	}
	return nil, fmt.Errorf("-trace %s: want poisson, openb:FOLDER, openb:FOLDER:LIST, philly:FILE or simkube:FILE", in.trace)
}

// openb reads a pod list, "default" if the path has none.
func (s *source) openb(path string) error {
	dir, list, _ := strings.Cut(path, ":")
	folder, err := openb.OpenFolder(dir)
	if err != nil {
		return err
	}
	list = cmp.Or(list, "default")
	if s.pods, err = folder.Pods(list); err != nil {
		return err
	}
	text, err := os.ReadFile(folder.Path(list))
	if err != nil {
		return err
	}
	s.nodes = folder.Cluster
	s.origin = fmt.Sprintf("openb %s, sha256 %s", list, hash(text))
	if s.in.replay {
		s.origin += ", replayed"
		s.workload, err = openb.Replay(s.pods)
		return err
	}
	s.origin += ", in random order up to a demand of 130 %"
	s.experiment = &openb.Experiment{Cluster: s.nodes, Pods: s.pods}
	return nil
}

// hash returns the beginning of the SHA-256 of a file, which tells traces apart.
func hash(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text))[:16] }

func (s *source) philly(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	trace, err := philly.Read(bytes.NewReader(text), path)
	if err != nil {
		return err
	}
	arrivals, err := trace.Workload(philly.Options{CPUPerGPU: 1})
	if err != nil {
		return err
	}
	s.origin = fmt.Sprintf("philly, sha256 %s, %d jobs, %d skipped, 1 core for each GPU", hash(text), len(trace.Jobs), trace.Skipped)
	return s.submit(path, arrivals)
}

func (s *source) simkube(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	trace, err := simkube.Read(bytes.NewReader(text), path)
	if err != nil {
		return err
	}
	s.origin = fmt.Sprintf("simkube, sha256 %s, %d pods, %d changes ignored", hash(text), len(trace.Pods), trace.Ignored)
	return s.submit(path, trace.Pods)
}

// submit makes arrivals the workload.
func (s *source) submit(path string, arrivals sim.Arrivals) error {
	if len(arrivals) == 0 {
		return fmt.Errorf("%s: no pod ran", path)
	}
	for i := range arrivals {
		s.pods = append(s.pods, openb.Pod{Shape: arrivals[i].Shape})
	}
	s.workload = arrivals
	return nil
}

func (s *source) poisson() error {
	in := s.in
	var shapes []*sim.Shape
	for i, text := range strings.Split(in.pods, ";") {
		shape, err := kindOfPod(text, fmt.Sprintf("image-%d", i))
		if err != nil {
			return err
		}
		shapes = append(shapes, shape)
		s.pods = append(s.pods, openb.Pod{Shape: shape})
	}
	p := workload.Poisson{Seed: in.seed, Jobs: in.jobs, Every: in.every, Mean: in.mean, Shapes: shapes, Gang: in.gang, Users: in.users}
	s.origin = fmt.Sprintf("Poisson, %d jobs of %d pods, every %v, mean %v, pods %s, %d users", in.jobs, in.gang, in.every, in.mean, in.pods, in.users)
	if in.diurnal > 0 {
		p.Rate = workload.Diurnal(in.diurnal)
		s.origin += fmt.Sprintf(", nights at %v of the rate", in.diurnal)
	}
	s.workload = p
	if in.jobs <= 0 || in.every <= 0 || in.mean <= 0 {
		return fmt.Errorf("-jobs, -every and -mean must be positive")
	}
	return nil
}

// options returns the simulation of a policy.
func (s *source) options(policy string, seed uint64) (sim.Options, error) {
	profile, err := profileOf(policy, s.pods)
	if err != nil {
		return sim.Options{}, err
	}
	o := sim.Options{Nodes: s.nodes, Workload: s.workload, Profile: profile, Seed: seed}
	if s.experiment != nil {
		e := *s.experiment
		e.Policy, e.Seed = openb.FGD, int64(seed)
		if o, _, err = e.Options(); err != nil {
			return o, err
		}
		o.Profile = profile
	} else if o.Model, err = s.in.model(s.pods); err != nil {
		return o, err
	}
	o.Name, o.Origin, o.Until = profile.Name, s.origin, s.in.until
	if s.in.faults > 0 {
		o.Faults = []sim.Fault{{Rate: s.in.faults, For: s.in.faultFor}}
	}
	if s.experiment == nil {
		o.Controllers = append(o.Controllers, &sim.Jobs{}, &sim.NodeLifecycle{})
	}
	o.Gauges = s.gauges()
	return o, nil
}

// gauges are the stranded resources for the median pod, and the fragmentation of GPUs.
func (s *source) gauges() []sim.Gauge {
	byCPU := slices.SortedStableFunc(slices.Values(s.pods), func(a, b openb.Pod) int {
		return cmp.Or(cmp.Compare(a.Shape.GPU.Total(), b.Shape.GPU.Total()), cmp.Compare(a.Shape.Requests.CPU, b.Shape.Requests.CPU))
	})
	median := byCPU[len(byCPU)/2].Shape
	gauges := []sim.Gauge{kube.Stranded(v1.ResourceCPU, median)}
	gpus := s.nodes[0].Status.Allocatable[sim.LabelGPUs]
	if gpus.Value() > 0 || s.experiment != nil {
		gauges = append(gauges, kube.Stranded(sim.LabelGPUs, median), openb.TypicalPods(s.pods).Gauge())
	}
	return gauges
}

// model returns the durations of starts.
func (in *input) model(pods []openb.Pod) (sim.Model, error) {
	m := sim.Model{Create: in.create, Stop: in.stop, Source: fmt.Sprintf("flags: create %v, stop %v", in.create, in.stop)}
	if in.image == "" {
		return m, nil
	}
	size, err := resource.ParseQuantity(in.image)
	if err != nil {
		return m, fmt.Errorf("-image %s: %w", in.image, err)
	}
	rate, err := resource.ParseQuantity(in.bandwidth)
	if err != nil {
		return m, fmt.Errorf("-bandwidth %s: %w", in.bandwidth, err)
	}
	m.Bandwidth, m.ImageSizes = rate.Value(), map[string]int64{}
	for _, p := range pods {
		for _, image := range p.Shape.Images {
			m.ImageSizes[image] = size.Value()
		}
	}
	m.Source += fmt.Sprintf(", images of %s at %s/s", in.image, in.bandwidth)
	return m, nil
}
