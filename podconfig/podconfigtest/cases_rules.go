// SPDX-License-Identifier: Apache-2.0

package podconfigtest

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
)

// The short names used in the table. said is a step of source "file".
func said(want string, c podconfig.Change) Step { return from("file", want, c) }

func from(source, want string, c podconfig.Change) Step {
	return Step{Source: source, Change: c, Want: want}
}

func snapshot(want string, pods ...*v1.Pod) Step { return said(want, podconfig.Snapshot(pods...)) }
func upsert(want string, pods ...*v1.Pod) Step   { return said(want, podconfig.Upsert(pods...)) }
func remove(want string, uids ...types.UID) Step { return said(want, podconfig.Remove(uids...)) }

func a(options ...PodOption) *v1.Pod { return Pod("a", "1", options...) }
func b(options ...PodOption) *v1.Pod { return Pod("b", "2", options...) }
func c(options ...PodOption) *v1.Pod { return Pod("c", "3", options...) }
func d(options ...PodOption) *v1.Pod { return Pod("d", "4", options...) }

func rule(name string, steps ...Step) Case { return Case{Name: name, Steps: steps} }

// snapshotCases test the pods of a source.
func snapshotCases() []Case {
	return []Case{
		rule("unknown is ADD", snapshot("ADD[a/1]+", a()), snapshot("ADD[b/2]", a(), b())),
		rule("the same again is nothing", snapshot("ADD[a/1 b/2]+", a(), b()), snapshot("", a(), b()), snapshot("", b(), a())),
		rule("pods come in the order of the change", snapshot("ADD[c/3 a/1 b/2]+", c(), a(), b())),
		rule("absent is REMOVE", snapshot("ADD[a/1 b/2]+", a(), b()), snapshot("REMOVE[b/2]", a())),
		rule("REMOVE then the same UID again is ADD", snapshot("ADD[a/1]+", a()), snapshot("REMOVE[a/1]"), snapshot("ADD[a/1]", a())),
		rule("same name, new UID: REMOVE before ADD", snapshot("ADD[a/1]+", a()), snapshot("REMOVE[a/1] ADD[a/9]", Pod("a", "9"))),
		rule("each operation once, in the order that counts",
			snapshot("ADD[a/1 b/2 c/3 d/4]+", a(), b(), c(), d()),
			snapshot("REMOVE[d/4] ADD[e/5] UPDATE[c/3] DELETE[b/2] RECONCILE[a/1]",
				a(Phase(v1.PodRunning)), b(Deleting(1)), c(Label("k", "v")), Pod("e", "5"))),
		rule("input order within each operation",
			snapshot("ADD[a/1 b/2 c/3 d/4]+", a(), b(), c(), d()),
			snapshot("UPDATE[d/4 a/1] RECONCILE[c/3 b/2]", d(Image("x:2")), c(Phase(v1.PodRunning)), a(Image("x:2")), b(Phase(v1.PodRunning)))),
		rule("a restarted agent adds all anew", snapshot("ADD[a/1]+", a(Annotation(podconfig.AnnotationFirstSeen, "2001-02-03T04:05:06Z")))),
	}
}

// deltaCases test Upsert and Remove: the changes of single pods that the kubelet up to 1.35 accepts as
// ADD, UPDATE, DELETE and REMOVE.
func deltaCases() []Case {
	return []Case{
		rule("the content decides, not the kind of delta", upsert("ADD[a/1]", a()), upsert("UPDATE[a/1]", a(Image("x:2"))),
			upsert("DELETE[a/1]", a(Image("x:2"), Deleting(1))), upsert("", a(Image("x:2"), Deleting(1)))),
		rule("a delta leaves the others alone", snapshot("ADD[a/1 b/2]+", a(), b()), upsert("UPDATE[a/1]", a(Image("x:2"))), snapshot("", a(Image("x:2")), b())),
		rule("Remove looks at UIDs alone, in their order", upsert("ADD[a/1 b/2 c/3]", a(), b(), c()), remove("REMOVE[c/3 a/1]", "3", "unknown", "1", "3"), remove("", "1")),
		rule("empty deltas are nothing", upsert(""), remove("")),
		rule("same name, new UID, as a delta", upsert("ADD[a/1]", a()), upsert("REMOVE[a/1] ADD[a/9]", Pod("a", "9")), remove("", "1")),
		rule("names swapped in a delta", upsert("ADD[a/1 b/2]", a(), b()), upsert("REMOVE[b/2 a/1] ADD[a/2 b/1]", Pod("a", "2"), Pod("b", "1"))),
		rule("a snapshot after deltas tells the difference", upsert("ADD[a/1 b/2]", a(), b()), snapshot("REMOVE[a/1] ADD[c/3]+", b(), c())),
	}
}

// contentCases test the comparison of pods.
func contentCases() []Case {
	return []Case{
		rule("spec is UPDATE", upsert("ADD[a/1]", a()), upsert("UPDATE[a/1]", a(Image("x:2")))),
		rule("labels are UPDATE, going as well as coming", upsert("ADD[a/1]", a()), upsert("UPDATE[a/1]", a(Label("k", "v"))),
			upsert("UPDATE[a/1]", a(Label("k", "w"))), upsert("UPDATE[a/1]", a())),
		rule("annotations are UPDATE, going as well as coming", upsert("ADD[a/1]", a()), upsert("UPDATE[a/1]", a(Annotation("k", "v"))), upsert("UPDATE[a/1]", a())),
		rule("status is RECONCILE", upsert("ADD[a/1]", a()), upsert("RECONCILE[a/1]", a(Phase(v1.PodRunning))), upsert("", a(Phase(v1.PodRunning)))),
		rule("a status that rides along is told once", upsert("ADD[a/1]", a()), upsert("UPDATE[a/1]", a(Label("k", "v"), Phase(v1.PodRunning))),
			upsert("", a(Label("k", "v"), Phase(v1.PodRunning)))),
		rule("other metadata is nothing", upsert("ADD[a/1]", a()), upsert("", a(Version("8"), Edited(func(p *v1.Pod) {
			p.Generation, p.Finalizers, p.GenerateName, p.Kind = 2, []string{"example.com/f"}, "a-", "Pod"
		})))),
		rule("resourceVersion proves nothing outside of an API server", snapshot("ADD[a/1]+", a(Version("7"))), snapshot("UPDATE[a/1]", a(Version("7"), Image("x:2")))),
		{Name: "resourceVersion may save the comparison of a snapshot of the API source", Steps: []Step{
			from("api", "ADD[a/1]+", podconfig.Snapshot(a(Version("7")))),
			from("api", "UPDATE[a/1]", podconfig.Snapshot(a(Version("8"), Image("x:2"))))}},
	}
}

// deletionCases test DeletionTimestamp.
func deletionCases() []Case {
	return []Case{
		rule("DeletionTimestamp is DELETE, once", upsert("ADD[a/1]", a()), upsert("DELETE[a/1]", a(Deleting(30))), upsert("", a(Deleting(30)))),
		rule("new with a DeletionTimestamp is ADD", upsert("ADD[a/1]", a(Deleting(30)))),
		rule("label while deleting is DELETE again", upsert("ADD[a/1]", a(Deleting(30))), upsert("DELETE[a/1]", a(Deleting(30), Label("k", "v")))),
		rule("grace period while deleting is DELETE again", upsert("ADD[a/1]", a(Deleting(30))), upsert("DELETE[a/1]", a(Deleting(1)))),
		rule("status while deleting is RECONCILE", upsert("ADD[a/1]", a(Deleting(30))), upsert("RECONCILE[a/1]", a(Deleting(30), Phase(v1.PodFailed)))),
		rule("DeletionTimestamp that goes is UPDATE", upsert("ADD[a/1]", a(Deleting(30))), upsert("UPDATE[a/1]", a())),
		rule("REMOVE of a pod that was being deleted", upsert("ADD[a/1]", a()), upsert("DELETE[a/1]", a(Deleting(30))), remove("REMOVE[a/1]", "1")),
	}
}

// annotationCases test the agent's own annotations. Their values in updates are
// checked with every step.
func annotationCases() []Case {
	local := []string{podconfig.AnnotationSource, podconfig.AnnotationFirstSeen, podconfig.AnnotationMirror}
	cases := []Case{
		rule("the hash is no local annotation", upsert("ADD[a/1]", a(Annotation(podconfig.AnnotationHash, "1"))),
			upsert("UPDATE[a/1]", a(Annotation(podconfig.AnnotationHash, "2")))),
		rule("a mirror annotation that comes later is not told, and sticks", upsert("ADD[a/1]", a()),
			upsert("", a(Annotation(podconfig.AnnotationMirror, "h"))), upsert("UPDATE[a/1]", a(Label("k", "v"))), upsert("UPDATE[a/1]", a())),
		rule("first seen survives updates", upsert("ADD[a/1]", a()), upsert("UPDATE[a/1]", a(Image("x:2"))),
			upsert("DELETE[a/1]", a(Image("x:2"), Deleting(1))), remove("REMOVE[a/1]", "1")),
	}
	for _, name := range local {
		cases = append(cases, rule("a local annotation is no difference: "+name, upsert("ADD[a/1]", a()), upsert("", a(Annotation(name, "x"))), upsert("", a())))
	}
	return cases
}

// duplicateCases test several pods of the same name or UID in a change.
func duplicateCases() []Case {
	return []Case{
		rule("the first of a name counts", snapshot("ADD[a/1]+", a(), Pod("a", "9"))),
		rule("the order decides which is the first", snapshot("ADD[a/1]+", a(), Pod("a", "9")), snapshot("REMOVE[a/1] ADD[a/9]", Pod("a", "9"), a())),
		rule("a rejected pod claims nothing", upsert("ADD[a/1 b/2]", a(), Pod("b", "1"), b())),
		rule("nil and a missing UID do not fail the others", snapshot("ADD[b/2]+", nil, Pod("a", ""), b())),
		rule("nothing but bad pods", upsert("", nil), upsert("", Pod("a", "")), snapshot("ADD[]+", nil)),
	}
}
