"""The demo, step by step. Every step finds out what is there already, so it can be run again."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import yaml
from tests.support import install, manifests
from tests.support.cache import cache_folder
from tests.support.demo import chat
from tests.support.demo.builds import side_by_side
from tests.support.demo.inside import chat_inside
from tests.support.demo.progress import Progress
from tests.support.demo.record import Record, kind_of_run
from tests.support.install import Images
from tests.support.kube import MODEL, Kube, Object
from tests.support.kube import VOLUME as CLUSTER_VOLUME
from tests.support.onenode import COMMAND, ROOT, UP_SECONDS, Cluster, run
from tests.support.openai_access import forwarded
from tests.support.waiting import Say

CLUSTER = "demo"
NAMESPACE = "demo"
VOLUME = "weights"
READY_SECONDS = 300


class Story:
    """One run of the demo."""

    def __init__(self, *, say: Say) -> None:
        self._say = say
        self._cluster = Cluster(CLUSTER, say=say)
        self._folder = cache_folder() / "demo"

    def tell(self) -> None:
        """All steps in their order."""
        record = Record(kind_of_run(CLUSTER), say=self._say)
        with record.step("cluster and images"):
            self._build()
        kube = Kube(self._cluster.environment, say=self._say)
        try:
            with record.step("push the images into the cluster's registry"):
                images = install.build_images(self._cluster, say=self._say)
            with record.step("helm install"):
                self._install(kube, images)
            with record.step("a tiny model on the node"):
                self._weights(kube)
            with record.step("kubectl apply, and wait until it is Ready"):
                model = self._apply(kube)
            with record.step("a completion from inside the cluster (random weights: no sense)"):
                chat_inside(kube, NAMESPACE, model, image=images.runtime_cpu)
            with record.step("a completion from outside, through kubectl port-forward"):
                self._chat_outside(kube, model)
            record.save(self._folder)
            self._end(kube, model, record)
        finally:
            kube.close()

    def collect_logs(self) -> Path:
        """Everything that explains a failure, in a folder; those of an earlier one go."""
        folder = self._folder / "logs"
        shutil.rmtree(folder, ignore_errors=True)
        self._cluster.logs(folder)
        return folder

    def _build(self) -> None:
        """Two builds that need different things: Go modules, and wheels."""
        side_by_side(
            {
                "cluster up": [str(COMMAND), "--name", CLUSTER, "up"],
                "images/build": [str(ROOT / "images" / "build"), "operator", "runtime-cpu"],
            },
            seconds=UP_SECONDS,
            say=self._say,
        )

    def _install(self, kube: Kube, images: Images) -> None:
        kube.apply(manifests.namespace(install.NAMESPACE), manifests.namespace(NAMESPACE))
        # What a helm that was killed leaves behind; it would refuse to go on.
        for state in ("pending-install", "pending-upgrade", "pending-rollback"):
            left = f"owner=helm,name={install.RELEASE},status={state}"
            kube.kubectl("delete", "secrets", "-n", install.NAMESPACE, "-l", left)
        install.install(kube, images)
        for line in kube.kubectl("get", "deployments", "-n", install.NAMESPACE).splitlines():
            self._say(f"  {line}")

    def _weights(self, kube: Kube) -> None:
        folder = self._folder / "weights" / "tiny"
        out = run(
            sys.executable, "-m", "tests.support.tinymodel", folder, seconds=60, say=self._say
        )
        self._say(f"  {out.strip()}")
        left = kube.get(CLUSTER_VOLUME, VOLUME)
        if left is not None and left["status"].get("phase") == "Released":
            # Its claim went with a deleted namespace; it would wait for that very claim for ever.
            kube.delete(CLUSTER_VOLUME, VOLUME)
            kube.wait_gone(CLUSTER_VOLUME, VOLUME, seconds=30)
        self._cluster.volume(VOLUME, folder.parent)
        kube.apply(manifests.claim(VOLUME, NAMESPACE, volume=VOLUME))

    def _apply(self, kube: Kube) -> Object:
        self._say(f"  kubectl apply -n {NAMESPACE} -f {manifests.EXAMPLE.relative_to(ROOT)}")
        kube.kubectl("apply", "-n", NAMESPACE, "-f", str(manifests.EXAMPLE))
        name: str = yaml.safe_load(manifests.EXAMPLE.read_text())["metadata"]["name"]
        return Progress(kube, name, NAMESPACE).until_ready(seconds=READY_SECONDS)

    def _chat_outside(self, kube: Kube, model: Object) -> None:
        name = model["metadata"]["name"]
        with forwarded(kube, f"svc/{name}", NAMESPACE) as port:
            chat.talk(f"http://127.0.0.1:{port}/v1", name)

    def _end(self, kube: Kube, model: Object, record: Record) -> None:
        name = model["metadata"]["name"]
        found = kube.have(MODEL, name, NAMESPACE)
        print()
        print(f"$ kubectl get im -n {NAMESPACE}")
        print(kube.kubectl("get", "im", "-n", NAMESPACE))
        print(f"$ kubectl get im {name} -n {NAMESPACE} -o yaml     # the part .status.plan")
        print(yaml.safe_dump(found["status"]["plan"], sort_keys=False, width=100))
        print(record)
        command = COMMAND.relative_to(ROOT)
        print(
            f'\nLook around:  eval "$({command} env)"'
            f"\n              kubectl describe im {name} -n {NAMESPACE}"
            f"\n              kubectl port-forward -n {NAMESPACE} service/{name} 8000 &"
            "\n              curl http://127.0.0.1:8000/v1/models"
            f"\nClean up:     kubectl delete im {name} -n {NAMESPACE}   # the model alone"
            "\n              make demo-down   # the cluster; images and binaries stay cached"
        )
