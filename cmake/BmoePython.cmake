# BMOE_PYTHON: a python3 that has numpy, which the one first on PATH may lack; empty if there is none.
if(NOT BMOE_PYTHON)
    find_program(bmoe_path_python python3 NO_CACHE)
    set(bmoe_python "")
    foreach(candidate IN ITEMS ${bmoe_path_python} /usr/bin/python3)
        execute_process(
            COMMAND ${candidate} -c "import numpy"
            RESULT_VARIABLE bmoe_result
            OUTPUT_QUIET ERROR_QUIET)
        if(bmoe_result EQUAL 0)
            set(bmoe_python ${candidate})
            break()
        endif()
    endforeach()
    set(BMOE_PYTHON "${bmoe_python}" CACHE FILEPATH "A python3 that can import numpy" FORCE)
    if(NOT BMOE_PYTHON)
        message(WARNING "No python3 with numpy found (tried PATH and /usr/bin/python3): install python3-numpy or pass "
                        "-DBMOE_PYTHON=. Tests that need it are left out.")
    endif()
endif()
