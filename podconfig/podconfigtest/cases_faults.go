// SPDX-License-Identifier: Apache-2.0

package podconfigtest

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/podconfig"
)

func fault(fault, name string, steps ...Step) Case {
	return Case{Fault: fault, Name: name, Steps: steps}
}

func cpu(amount string) PodOption {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(amount)}
	}
}

// elsewhere moves the DeletionTimestamp to another time zone.
func elsewhere(p *v1.Pod) {
	p.DeletionTimestamp = &metav1.Time{Time: p.DeletionTimestamp.In(time.FixedZone("elsewhere", 5400))}
}

func emptied(p *v1.Pod) {
	p.Labels, p.Annotations = map[string]string{}, map[string]string{}
	p.Spec.Volumes, p.Status.Conditions = []v1.Volume{}, []v1.PodCondition{}
}

func trifles(p *v1.Pod) {
	p.ResourceVersion, p.Generation, p.Finalizers = "8", 2, []string{"example.com/f"}
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "j"}}
}

// faultCases are the observed faults of kubelet 1.36.3 that a table can test.
func faultCases() []Case {
	return []Case{
		fault("NilLabelsAreNotEmpty", "nil and empty are the same", upsert("ADD[a/1]", a()), upsert("", a(emptied)), upsert("", a())),
		fault("MillicoresAreAnotherAmount", "1000m is 1", upsert("ADD[a/1]", a(cpu("1000m"))), upsert("", a(cpu("1"))), upsert("UPDATE[a/1]", a(cpu("1001m")))),
		fault("AnotherZoneIsAnotherTime", "a time is the same in every zone", upsert("ADD[a/1]", a(Deleting(30))), upsert("", a(Deleting(30), elsewhere))),
		fault("MetadataGoesStale", "silent metadata is told with the next change", upsert("ADD[a/1]", a(Version("7"))), upsert("", a(trifles)),
			upsert("RECONCILE[a/1]", a(trifles, Phase(v1.PodRunning))), remove("REMOVE[a/1]", "1")),
		fault("MetadataGoesStale", "a pod leaves as it was last", upsert("ADD[a/1]", a()), upsert("", a(trifles)), remove("REMOVE[a/1]", "1")),
		fault("DuplicateUIDFlaps", "of two names with one UID the first counts, every time",
			snapshot("ADD[x/1]+", Pod("x", "1"), Pod("y", "1")), snapshot("", Pod("x", "1"), Pod("y", "1")), snapshot("", Pod("x", "1"), Pod("y", "1"))),
		fault("DeltaLeavesTwoPodsOfOneName", "a name belongs to one pod of a source", upsert("ADD[a/1]", a()), upsert("REMOVE[a/1] ADD[a/2]", Pod("a", "2")),
			snapshot("ADD[]+", Pod("a", "2"))),
		fault("NameOfAUIDChangesUnnoticed", "another name is another pod", upsert("ADD[a/1]", a()), upsert("REMOVE[a/1] ADD[z/1]", Pod("z", "1")), upsert("ADD[a/9]", Pod("a", "9"))),
		fault("NamesSwappedUnnoticed", "in a snapshot as well", snapshot("ADD[a/1 b/2]+", a(), b()), snapshot("REMOVE[a/1 b/2] ADD[a/2 b/1]", Pod("a", "2"), Pod("b", "1"))),
		fault("RemovalsComeInRandomOrder", "removals come in order of arrival", snapshot("ADD[e/5 d/4 c/3 b/2 a/1]+", Pod("e", "5"), d(), c(), b(), a()),
			snapshot("REMOVE[e/5 d/4 c/3 b/2 a/1]")),
		fault("RemoveAfterAddClobbersTheIndex", "REMOVE always comes first", snapshot("ADD[a/1 b/2]+", a(), b()),
			snapshot("REMOVE[a/1 b/2] ADD[b/7 a/8]", Pod("b", "7"), Pod("a", "8"))),
		fault("RetainedInputIsLost", "the same object, edited, is another content", snapshot("ADD[a/1]+", a()), snapshot("UPDATE[a/1]", a(Image("x:2"))),
			upsert("UPDATE[a/1]", a(Image("x:3"))), upsert("RECONCILE[a/1]", a(Image("x:3"), Phase(v1.PodRunning)))),
		fault("OutputSharesMemory", "what a consumer does to a pod stays with him", upsert("ADD[a/1]", a(Label("k", "v"))), upsert("", a(Label("k", "v"))),
			upsert("RECONCILE[a/1]", a(Label("k", "v"), Phase(v1.PodRunning))), remove("REMOVE[a/1]", "1")),
		fault("FirstUpdateOpensTheGate", "only the last update of the first snapshot says that a source is ready",
			upsert("ADD[a/1 b/2]", a(), b()), snapshot("REMOVE[b/2] ADD[c/3] UPDATE[a/1]+", a(Image("x:2")), c())),
		{Fault: "StaleUIDRemovesItsNamesake", Name: "a late removal of an old UID", Steps: []Step{
			from("api", "ADD[a/1]", podconfig.Upsert(a())), from("api", "REMOVE[a/1] ADD[a/2]", podconfig.Upsert(Pod("a", "2"))),
			from("api", "", podconfig.Remove("1")), from("api", "UPDATE[a/2]", podconfig.Upsert(Pod("a", "2", Image("x:2"))))}},
	}
}
