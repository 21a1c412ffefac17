"""Many jobs of one name at once: one is done, whole, and the others get one clear message."""

import threading
from concurrent.futures import ThreadPoolExecutor

from telic.errors import Refused, TelicError, UsageError
from telic.storage.files import read_json
from telic.storage.layout import RunFolder
from telic.training.folder import create_run, new_run, working_on
from tests.training.small import small_job

MANY = 8


def at_once(act):
    """Call `act` with 1, 2, … from threads that begin together; return results and refusals."""
    barrier = threading.Barrier(MANY)

    def one(number):
        barrier.wait()
        try:
            return act(number)
        except TelicError as error:
            return error

    with ThreadPoolExecutor(MANY) as pool:
        found = list(pool.map(one, range(1, MANY + 1)))
    refused = [each for each in found if isinstance(each, TelicError)]
    return [each for each in found if not isinstance(each, TelicError)], refused


def seeds_of(run: RunFolder) -> tuple:
    members = [read_json(member.config)["seed"] for member in run.members()]
    return (
        read_json(run.manifest)["seeds"],
        [member["seed"] for member in read_json(run.config)["members"]],
        members,
    )


def test_of_many_jobs_of_one_name_one_makes_the_folder(tmp_path):
    jobs = {number: small_job(seeds=(number,)) for number in range(1, MANY + 1)}
    for round_number in range(20):

        def make(number, name=f"same_{round_number}"):
            folder = new_run(tmp_path, name)
            with working_on(folder, is_new=True):
                create_run(jobs[number], folder)
            return number

        made, refused = at_once(make)
        assert len(made) == 1
        assert seeds_of(RunFolder(tmp_path / f"same_{round_number}")) == (made, made, made)
        for error in refused:
            assert "is in use" in str(error) or "already exists" in str(error)


def test_a_refused_job_leaves_the_name_to_others(tmp_path):
    def refuse(number):
        folder = new_run(tmp_path, "same")
        with working_on(folder, is_new=True):
            raise UsageError(f"refused {number}")

    for _ in range(20):
        made, refused = at_once(refuse)
        assert not made and not (tmp_path / "same").exists()
        assert all(isinstance(error, UsageError | Refused) for error in refused)
